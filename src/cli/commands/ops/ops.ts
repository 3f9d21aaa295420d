import type { Command } from 'commander'
import { resetTarget } from '../../../document/internal.js'
import type { OutsideTarget } from '../../../engine/internal.js'
import { requeueTarget } from '../../../event/internal.js'
import { operationOutcome, undoOperation } from '../../../operate/index.js'
import {
  type OperationView,
  operationNote,
  operationTotal,
  operationView,
  runUntilStopped,
} from '../../../operate/internal.js'

import {
  isOnLiving,
  isOutside,
  MOVED,
  type OperationRecord,
  refuseLasting,
  type StoreContract,
} from '../../../store/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import type { CommandContext } from '../../command.js'
import type { Environment } from '../../environment.js'
import { CommandError, ExitCode, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { writeOne, writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { fields, NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { relative, timestamp } from '../../terminal/times.js'
import { quoted } from '../../terminal/visible.js'
import { endOf } from '../dlq/letter-selection.js'
import { collectionNamed, type DocumentOptions, withSource } from '../docs/options.js'
import { rateText } from '../lane/text.js'
import { askFirst } from '../shared/ask-first.js'
import { type BusOptions, withBus } from '../shared/open-bus.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions, withPageOptions } from '../shared/options.js'
import { type PageOptions, printList } from '../shared/print-list.js'
import { shortJson } from '../shared/short-json.js'
import { loadTasks } from '../worker/load-work.js'
import { endOfOperation, leaveOutside, refusedText, startDetached } from './text.js'

interface ActOptions extends CommonOptions {
  readonly why?: string
  readonly yes?: boolean
}

interface ContinueOptions extends ActOptions, Pick<DocumentOptions, 'source' | 'config'>, BusOptions {
  readonly detach?: boolean
}

/** Adds `redrive ops`. */
export function addOps(program: Command, context: CommandContext): void {
  const ops = program
    .command('ops')
    .helpCommand(false)
    .description('List, show, stop, continue and undo operations: bulk acts on record')

  const ls = ops
    .command('ls')
    .description('List operations, newest first')
    .option('--open', 'Only those that are neither stopped nor done')
    .action(async (options: CommonOptions & PageOptions & { readonly open?: boolean }) =>
      context.end(await list(context, options)),
    )
  withCommonOptions(withPageOptions(ls, 'operations')).addHelpText('after', '\nExample:\n  redrive ops ls --open')

  const show = ops
    .command('show')
    .description('Show how far an operation is, and what became of its members')
    .argument('<id>', 'Id of the operation')
    .action(async (id: string, options: CommonOptions) => context.end(await showOne(context, id, options)))
  withCommonOptions(show).addHelpText('after', '\nExample:\n  redrive ops show op-1a2b3c4d')

  const stop = ops
    .command('stop')
    .description('Stop an operation; members that were moved stay moved')
    .argument('<id>', 'Id of the operation')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .action(async (id: string, options: ActOptions) => context.end(await stopOne(context, id, options)))
  withCommonOptions(stop).addHelpText('after', '\nExample:\n  redrive ops stop op-1a2b3c4d')

  const goOn = ops
    .command('continue')
    .description('Continue a stopped operation, or watch one that is under way')
    .argument('<id>', 'Id of the operation')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--detach', 'Return at once; a worker, sweeper or consumer carries it out')
    .option('--source <url>', 'For a reset: URL of the source of its documents (or REDRIVE_SOURCE)', nonEmpty)
    .option(
      '--config <file>',
      'For a reset: module with the collections (default: redrive.config, or the preset)',
      nonEmpty,
    )
    .option('--bus <url>', 'For a requeue: URL of the bus (or REDRIVE_BUS)', nonEmpty)
    .action(async (id: string, options: ContinueOptions) => context.end(await continueOne(context, id, options)))
  withCommonOptions(goOn).addHelpText(
    'after',
    `
A reset of documents and a requeue of messages go on with the same source or
bus: the operation names its address, and no other one is touched.

Examples:
  redrive ops continue op-1a2b3c4d
  redrive ops continue op-5e6f7a8b --source mongodb://localhost/app
  redrive ops continue op-9c0d1e2f --bus amqp://localhost`,
  )

  const undo = ops
    .command('undo')
    .description('Put members back that wait and have not run since, or that were discarded')
    .argument('<id>', 'Id of the operation')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (id: string, options: ActOptions) => context.end(await undoOne(context, id, options)))
  withCommonOptions(undo).addHelpText(
    'after',
    `
A member comes back as the dead letter that it was: payload, attempts, error,
reason and time of death. One that has run since is left alone, and so are items
of pipelines. An operation that is under way is stopped first. A cancellation, a
reset of documents and a requeue of messages cannot be undone. Of a backfill, the
runs that have not begun are cancelled. Exits with 3 if some members were left
alone, and with 1 if all were.

Example:
  redrive ops undo op-1a2b3c4d --why 'wrong filter'`,
  )
}

function list(
  { console, environment }: CommandContext,
  options: CommonOptions & PageOptions & { readonly open?: boolean },
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const [now, workers] = [await store.now(), await store.workers()]
    const withNote = (operation: OperationRecord) => {
      return { ...operationView(operation), note: operationNote(operation, workers, now) }
    }
    return printList(console, options, {
      read: page => store.operations.list({ isOpen: options.open === true }, page),
      toJson: withNote,
      toTable: (operations, layout) => operationTable(operations.map(withNote), console, now, layout),
      none: () => 'No operations.',
    })
  })
}

function operationTable(
  operations: readonly (OperationView & { readonly note: string | null })[],
  { width, paint }: Console,
  now: number,
  layout: Parameters<typeof table>[2]['layout'],
): string {
  const columns = [
    { title: 'ID' },
    { title: 'ACT' },
    { title: 'STATUS' },
    { title: 'MOVED' },
    { title: 'CREATED' },
    { title: 'WHO', minWidth: NAME_WIDTH },
    { title: 'WHY', minWidth: NAME_WIDTH },
  ]
  const rows = operations.map(operation => {
    const { id, status, moved, createdAt, who, why, reason, note } = operation
    const act = actText(operation)
    const below = reason ?? note ?? putBackText(operation)
    return {
      cells: [id, act, status, String(moved), relative(createdAt, now), who, withoutSecrets(why ?? '-')],
      ...(below !== null && { details: paragraph(withoutSecrets(below), { width, indent: '  ' }) }),
    }
  })
  return table(columns, rows, { width, paint, layout })
}

/** The number of members that were put back, and by whom; `null` if none were. */
function putBackText({ undone, undoneBy }: OperationView): string | null {
  return undoneBy === null ? null : `${undone} put back by ${personText(undoneBy.who, undoneBy.why)}`
}

/** A redrive with a patch is what `dlq edit` began. */
function actText({ act, settings }: OperationView): string {
  return settings.patch === undefined ? act : 'edit'
}

function showOne({ console, environment }: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const operation = await found(store, id)
    const now = await store.now()
    const { driver } = operation
    const view = {
      ...operationView(operation),
      // One whose lease has run out carries nothing out any more.
      driver: driver !== undefined && driver.until > now ? driver.name : null,
      total: await operationTotal(store, operation),
      note: operationNote(operation, await store.workers(), now),
      outcome: await operationOutcome(store, operation),
    }
    writeOne(console, options.output, view, () => textOf(view, console))
    return ExitCode.done
  })
}

type ShownOperation = OperationView & {
  readonly total: number
  readonly note: string | null
  readonly outcome: string
}

function textOf(operation: ShownOperation, { width, paint }: Console): string {
  const { id, act, status, who, why, set, driver, moved, total, outstanding, refused, note, outcome } = operation
  const { unmatched, left, undone, undoneBy, createdAt, endedAt } = operation
  const lines = {
    by: personText(who, why),
    created: timestamp(createdAt),
    ended: endedAt === null ? undefined : timestamp(endedAt),
    members: setText(act, set),
    [MOVED[act]]: left === null ? `${moved} of ${total}` : moved,
    'put back': undoneBy === null ? undefined : `${undone} by ${personText(undoneBy.who, undoneBy.why)}`,
    'no match': unmatched > 0 ? unmatched : undefined,
    left: left === null || status === 'done' ? undefined : `up to ${left}`,
    unanswered: outstanding > 0 && act === 'redrive' ? outstanding : undefined,
    ...settingsText(operation.settings),
    driver: driver ?? undefined,
  }
  const shown = Object.entries(lines).map(([name, value]) => [name, value?.toString()] as const)
  const below = [...Object.entries(refused).map(([why, count]) => refusedText(why, count)), note ?? '', outcome]
  return [
    ...paragraph(`${id}  ${actText(operation)}  ${withoutSecrets(statusText(operation))}`, { width, indent: '' }),
    fields(shown, { width, paint }),
    ...below.filter(line => line !== '').flatMap(line => paragraph(line, { width, indent: '' })),
  ].join('\n')
}

function personText(who: string, why: string | null): string {
  return why === null ? who : `${who}: ${withoutSecrets(why)}`
}

/** `stopped by ada: wrong filter`, or `stopped: No answer from 2 of 10 members in time.` */
function statusText({ status, reason, stoppedBy }: OperationView): string {
  if (reason === null) return status
  return stoppedBy === null ? `${status}: ${reason}` : `s${reason.slice(1)}`
}

function setText(act: OperationView['act'], set: OperationView['set']): string {
  if ('named' in set) return `${set.named} named`
  if ('filter' in set)
    return `${filterText(set.filter)}, ${isOnLiving(act) ? 'submitted' : 'dead'} by ${timestamp(set.until)}`
  if ('schedule' in set) return `slots of ${quoted(set.schedule)} from ${timestamp(set.from)} to ${timestamp(set.to)}`
  if ('queue' in set) return `the oldest ${set.count} of ${quoted(set.queue)} at ${set.bus}`
  const error = set.error === undefined ? '' : ` with ${quoted(set.error)} in their error`
  return `failed in ${quoted(set.collection)} at ${set.source}${error}, attempted by ${timestamp(set.until)}`
}

function settingsText({
  patch,
  fixedIn,
  runAt,
  priority,
  canary,
  stopAbove,
  perSecond,
  limit,
  atOnce,
}: OperationView['settings']) {
  return {
    patch: patch === undefined ? undefined : shortJson(patch),
    'fixed in': fixedIn?.release,
    due: runAt === undefined ? undefined : timestamp(runAt),
    priority,
    canary,
    'stop above': stopAbove === undefined ? undefined : `${Math.round(stopAbove * 1000) / 10} %`,
    limit,
    'at once': atOnce,
    rate: perSecond === undefined ? undefined : rateText(perSecond),
  }
}

function filterText(filter: object): string {
  const parts = Object.entries(filter).filter(([, value]) => value !== undefined)
  return parts.length === 0 ? 'all' : parts.map(([name, value]) => `${name}=${value}`).join(' ')
}

function stopOne({ console, environment }: CommandContext, id: string, options: ActOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const before = await found(store, id)
    const operation = await store.operations.change(id, 'stop', byOf(environment.user, options))
    writeResult(console, options.output, operationView(operation))
    if (operation.status === 'done') console.say('It was done already.')
    else if (before.status === 'stopped') console.say(`It was stopped already: ${before.reason ?? 'without a reason.'}`)
    else console.say(`Stopped. ${await operationOutcome(store, operation)}`)
    return ExitCode.done
  })
}

function continueOne(context: CommandContext, id: string, options: ContinueOptions): Promise<ExitCode> {
  const { console, environment } = context
  return withStore(options, environment, async store => {
    const before = await found(store, id)
    if (before.status === 'done') {
      const { act, moved } = before
      writeResult(console, options.output, { [MOVED[act]]: moved, isStopped: false, operation: operationView(before) })
      console.say('It is done already.')
      return ExitCode.done
    }
    const by = byOf(environment.user, options)
    const goOn = () => store.operations.change(id, 'continue', by)
    if (options.detach && isOutside(before.set)) return leaveOutside(context, options.output, await goOn())
    if (options.detach) return startDetached(context, store, options.output, goOn)
    return withMembers(before, options, environment, async outside => {
      const total = await operationTotal(store, await goOn())
      const tasks = await loadTasks(undefined, environment)
      const verb = MOVED[before.act]
      const counting = { total, verb, unit: 'batch', rest: 'Run the same command again to continue.' }
      const operation = await withCount(context, counting, ({ signal, onProgress }) => {
        onProgress(before.moved)
        const onStep = ({ moved }: OperationRecord) => onProgress(moved)
        return runUntilStopped(store, id, by, { signal, outside, onProgress: onStep, tasks })
      })
      return endOfOperation(context, store, options.output, operation, { movedBefore: before.moved })
    })
  })
}

/** Opens the source or the bus of an operation's members, if they are outside of the store, and closes it afterwards. */
function withMembers<T>(
  { id, set }: OperationRecord,
  options: ContinueOptions,
  environment: Environment,
  use: (outside: OutsideTarget | undefined) => Promise<T>,
): Promise<T> {
  const mustBe = (wanted: string, given: string, flag: string) => {
    if (given !== wanted) throw new UsageError(`${id} is about ${wanted}, not ${given}. Pass the same ${flag}.`)
  }
  if ('collection' in set) {
    return withSource(options, environment, (source, collections) => {
      mustBe(set.source, source.address, '--source')
      return use(resetTarget(source, [collectionNamed(collections, set.collection)]))
    })
  }
  if ('queue' in set) {
    return withBus(options, environment, bus => {
      mustBe(set.bus, bus.address, '--bus')
      return use(requeueTarget(bus))
    })
  }
  return use(undefined)
}

function undoOne(context: CommandContext, id: string, options: ActOptions): Promise<ExitCode> {
  const { console, environment } = context
  return withStore(options, environment, async store => {
    const operation = await found(store, id)
    const { status, moved, undone: before } = operation
    refuseLasting(operation)
    if (moved > 0 && moved === before) {
      writeResult(console, options.output, { undone: 0, isStopped: false })
      console.say(`Nothing to put back: all ${moved} were put back before.`)
      return ExitCode.done
    }
    const words = undoWords(operation)
    if (!options.yes) await askFirst(environment, { ...words, nothing: `0 ${words.done}.` })
    const by = byOf(environment.user, options)
    if (status === 'planned' || status === 'canary' || status === 'running') {
      await store.operations.change(id, 'stop', by)
      console.say(`${id} was ${status}. Stopped it.`)
    }
    const { undone, isStopped } = await withCount(
      context,
      { total: moved - before, verb: words.done, unit: 'batch', rest: 'Run the same command again for the rest.' },
      progress => undoOperation(store, id, by, progress),
    )
    writeResult(console, options.output, { undone, isStopped })
    const left = isStopped ? 0 : moved - before - undone
    console.say(`${undone} ${words.done}.${left > 0 ? ` The others have ${words.others}.` : ''}`)
    return isStopped ? ExitCode.partly : endOf(undone, left)
  })
}

function undoWords({ id, act, moved, undone }: OperationRecord) {
  const count = `up to ${moved - undone}`
  return act === 'backfill'
    ? {
        question: `Cancel the runs of ${id} that have not begun?`,
        effect: `This would cancel ${count} runs.`,
        done: 'cancelled',
        others: 'begun',
      }
    : {
        question: `Put back what ${id} moved and has not run since?`,
        effect: `This would put back ${count} tasks.`,
        done: 'put back',
        others: 'run or changed since',
      }
}

function byOf(who: string, { why }: ActOptions) {
  return { who, why }
}

async function found(store: StoreContract, id: string): Promise<OperationRecord> {
  const operation = await store.operations.get(id)
  if (operation !== undefined) return operation
  throw new CommandError(`There is no operation ${quoted(id)}. To list them, run: ${suggest('ops ls')}`)
}
