import { ALREADY_DUE, hasUnended } from '../../../engine/internal.js'
import { COPIES } from '../../../event/internal.js'
import { type LetterSelection, type OperationPlan, operationOutcome } from '../../../operate/index.js'
import { failedGroups, openGates, operationNote, operationView } from '../../../operate/internal.js'

import {
  HAS_RUN,
  isArranging,
  isCovering,
  isWorker,
  MOVED,
  type OperationAct,
  type OperationRecord,
  type StoreContract,
} from '../../../store/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { type OutputFormat, writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { endOf } from '../dlq/letter-selection.js'
import { noMatch } from '../shared/no-match.js'
import { shortJson } from '../shared/short-json.js'

/** Why members are left alone, in words. */
const REASONS: Readonly<Record<string, string>> = {
  lane_paused: 'their lane is paused',
  no_worker: 'no live worker runs their kind. Start such a worker, and redrive them again',
  twin_alive: 'another task has their unique key by now. See --twin',
  payload_invalid: 'their payload does not fit the schema of their task',
  item_of_run: 'they are items of a pipeline, which are reprocessed',
  running: 'they are running',
  lane_ordered: 'their lane is ordered, and keeps its order',
  already_due: 'they are due already',
  not_changed: 'they had started or ended by then, or were so already',
  already_back: 'somebody else had moved them by then',
  database_refused: 'the database refused to update them',
  has_run: 'they had run before',
  run_exists: 'the runs of these slots were there already, such as those that were cancelled',
  copy: 'they are second copies of dead letters, and were removed',
}

/** The command that shows more. */
const SEE: Readonly<Record<string, () => string>> = {
  lane_paused: () => suggest('lane ls', { '--state': 'paused' }),
  no_worker: () => suggest('worker ls'),
  item_of_run: () => suggest('pipeline ls'),
}

/** `12 left alone: their lane is paused. See: redrive lane ls --state paused` */
export function refusedText(reason: string, count: number): string {
  const see = SEE[reason]?.()
  return `${count} left alone: ${REASONS[reason] ?? reason}.${see === undefined ? '' : ` See: ${see}`}`
}

/** Members that were left alone since nothing was left to do: second copies were removed, due tasks need no promotion, slots had run. */
const NOTHING_TO_DO: ReadonlySet<string> = new Set([COPIES, ALREADY_DUE, HAS_RUN])

/** How many members were left alone that were to be moved. */
export function leftAlone(refused: Readonly<Record<string, number>>): number {
  return Object.entries(refused).reduce((sum, [reason, count]) => sum + (NOTHING_TO_DO.has(reason) ? 0 : count), 0)
}

/** The advice after a failure in the middle of a bulk act: live workers may carry its operation on. */
export function restText(selection: LetterSelection): string {
  if ('ids' in selection) return 'Run the same command again to continue.'
  return `To see whether its operation goes on, run: ${suggest('ops ls')}`
}

/** Says which members an operation would have, by kind, code and age, and who would be left alone. */
export function sayMembers(console: Console, { count, byKind, byCode, byAge, refused }: OperationPlan): void {
  if (count === 0) return
  console.say(`By kind: ${byKind.map(each => `${each.count} ${each.kind}`).join(', ')}.`)
  if (byCode.some(({ code }) => code !== null))
    console.say(`By code: ${byCode.map(each => `${each.count} ${each.code ?? 'without a code'}`).join(', ')}.`)
  console.say(`By age: ${byAge.map(each => `${each.count} ${AGE_NAMES[each.age] ?? each.age}`).join(', ')}.`)
  for (const { reason, count } of refused) console.say(refusedText(reason, count))
}

/** Says what an operation on dead letters would meet. */
export function sayPlan(console: Console, plan: OperationPlan, { canary }: { readonly canary?: number } = {}): void {
  const { count, workers, payloads } = plan
  if (count === 0) return
  sayMembers(console, plan)
  if (payloads?.example) console.say(`For example, ${payloads.example.id}: ${payloads.example.problem}`)
  if (payloads?.unchanged) console.say(`${payloads.unchanged} would move as they are: the patch changes nothing.`)
  if (payloads?.change) {
    const { id, before, after } = payloads.change
    console.say(`${id} before: ${shortJson(before)}`)
    console.say(`${id} after:  ${shortJson(after)}`)
  }
  if (payloads !== null && payloads.checked < count) console.say(`The payloads of ${payloads.checked} were checked.`)
  if (workers > 0) return
  console.say(
    canary === undefined
      ? 'No worker is running: they would move at once, and wait for one.'
      : 'No worker is running, and a canary needs one: start one first.',
  )
}

/** Says which gates the dead letters of a selection would wait behind: their operation gets no answers meanwhile. */
export async function sayGates(
  { console }: CommandContext,
  store: Pick<StoreContract, 'budgets' | 'countBy'>,
  selection: LetterSelection,
): Promise<void> {
  if ('ids' in selection) return
  const open = await openGates(store)
  if (open.length === 0) return
  const filter = 'filter' in selection ? selection.filter : {}
  const counts = await store.countBy({ ...filter, status: 'dead' }, ['kind', 'category'])
  for (const { kind, category } of open) {
    if (!counts.some(count => isCovering({ kind, category }, { kind: '', category: '', ...count }))) continue
    const whose = category === undefined ? quoted(kind) : `${quoted(kind)} in category ${quoted(category)}`
    console.say(
      `The failure budget of ${whose} holds its tasks: they wait until its gate closes. To see it, run: ${suggest('budget ls')}`,
    )
  }
}

const AGE_NAMES: Readonly<Record<string, string>> = {
  hour: 'within an hour',
  day: 'within a day',
  week: 'within a week',
  older: 'older',
}

/** The command to run next, after an act that has moved something. */
const AFTER: Partial<Record<OperationAct, (id: string) => string>> = {
  redrive: id => `For the outcome, run: ${suggest('ops show', {}, id)}`,
  discard: id => `To put them back, run: ${suggest('ops undo', {}, id)}`,
  promote: undoText,
  reschedule: undoText,
  prioritize: undoText,
  backfill: cancelText,
}

function cancelText(id: string): string {
  return `To cancel its runs that have not begun: ${suggest('ops undo', {}, id)}`
}

function undoText(id: string): string {
  return `To put back those that have not run since: ${suggest('ops undo', {}, id)}`
}

/** Says what came of an operation that this command ran, and returns its exit code. */
export async function endOfOperation(
  { console }: CommandContext,
  store: StoreContract,
  output: OutputFormat,
  operation: OperationRecord,
  { movedBefore = 0 }: { readonly movedBefore?: number } = {},
): Promise<ExitCode> {
  const { act, moved, status, stoppedBy, progress } = operation
  const isStopped = status === 'stopped'
  writeResult(console, output, { [MOVED[act]]: moved, isStopped, operation: operationView(operation) })
  if (movedBefore > 0) console.say(`${moved - movedBefore} ${MOVED[act]} now, ${moved} in all.`)
  // One that has stopped by itself says how many it moved with its outcome.
  else if (!isStopped || stoppedBy !== undefined) console.say(`${moved} ${MOVED[act]}.`)
  for (const [reason, count] of Object.entries(progress.refused)) console.say(refusedText(reason, count))
  const workers = await store.workers()
  if (status === 'planned') console.say(operationNote(operation, workers, await store.now()) ?? '')
  if (isStopped) await sayStop(console, store, operation)
  if (isWaitedFor(operation) && !workers.some(isWorker)) console.say('No worker is running: they wait for one.')
  for (const line of nextLines(operation)) console.say(line)
  return isStopped ? ExitCode.partly : endOf(moved, leftAlone(progress.refused))
}

async function sayStop(console: Console, store: StoreContract, operation: OperationRecord): Promise<void> {
  const { reason, stoppedBy } = operation
  if (stoppedBy === undefined) console.say(`Stopped: ${reason} ${await operationOutcome(store, operation)}`)
  else console.say(`${withoutSecrets(reason ?? '').replace(/\.$/, '')}. The rest is unchanged.`)
  for (const { group, count } of await failedGroups(store, operation)) {
    console.say(`${count} failed in the group ${group}. To see why, run: ${suggest('groups show', {}, group)}`)
  }
}

/** Whether members that it moved have not ended yet. */
function isWaitedFor(operation: OperationRecord): boolean {
  return operation.act === 'redrive' && hasUnended(operation)
}

/** The commands to run next. */
function nextLines(operation: OperationRecord): string[] {
  const { id, act, moved, status } = operation
  if (status !== 'stopped') return moved > 0 ? [AFTER[act]?.(id) ?? []].flat() : []
  const canUndo = isWaitedFor(operation) || ((act === 'discard' || act === 'backfill' || isArranging(act)) && moved > 0)
  return [
    ...(canUndo
      ? [act === 'backfill' ? cancelText(id) : `To put back what has not run: ${suggest('ops undo', {}, id)}`]
      : []),
    `To go on: ${suggest('ops continue', {}, id)}`,
  ]
}

/** Says that no task matches a selection, and which kinds there are if that may be the mistake. */
export async function sayNoMatch(
  { console }: CommandContext,
  store: Pick<StoreContract, 'countBy'>,
  selection: LetterSelection,
  what: 'dead letters' | 'tasks',
): Promise<void> {
  const filter = 'filter' in selection ? selection.filter : {}
  console.say(await noMatch(store, what, { ...filter, ...(what === 'dead letters' && { status: 'dead' }) }))
}

/** Creates an operation for the live workers to carry out. Refuses if there are none. */
export async function startDetached(
  context: CommandContext,
  store: StoreContract,
  output: OutputFormat,
  start: () => Promise<OperationRecord>,
): Promise<ExitCode> {
  if (!(await store.workers()).some(isWorker)) {
    throw new CommandError('No worker is running that could carry it out. Start one, or leave out --detach.')
  }
  return leaveTo(context, output, await start(), 'The live workers carry it out.')
}

/** Says who carries out an operation that this command has begun and leaves to others. */
function leaveTo({ console }: CommandContext, output: OutputFormat, operation: OperationRecord, who: string): ExitCode {
  writeResult(console, output, { operation: operationView(operation) })
  console.say(who)
  console.say(`To see how far it is, run: ${suggest('ops show', {}, operation.id)}`)
  return ExitCode.done
}

/** Says who carries out an operation on members outside of the store. Nobody knows whether any of them is running. */
export function leaveOutside(context: CommandContext, output: OutputFormat, operation: OperationRecord): ExitCode {
  const who = 'queue' in operation.set ? 'consumer of this bus' : 'sweeper of this source'
  const command = suggest('ops continue', {}, operation.id)
  return leaveTo(
    context,
    output,
    operation,
    `A running ${who} that uses this store carries it out. To do it here, run: ${command}`,
  )
}
