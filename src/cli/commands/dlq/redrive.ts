import { type Command, Option } from 'commander'
import {
  type LetterSelection,
  type OperationPlan,
  planOperation,
  planRedrive,
  redriveDeadLetters,
  startOperation,
} from '../../../operate/index.js'
import type { TaskSchema } from '../../../operate/internal.js'

import {
  batchesOf,
  checkPatch,
  type PayloadPatch,
  type StoreContract,
  TWIN_RULES,
  type TwinRule,
} from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { rateText } from '../lane/text.js'
import { endOfOperation, refusedText, restText, sayGates, sayNoMatch, sayPlan, startDetached } from '../ops/text.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, rate, share, wholeNumber, withCommonOptions } from '../shared/options.js'
import { loadTasks, withTasks } from '../worker/load-work.js'
import { endOf, lettersText, preview, type SelectionOptions, selectionOf, withSelection } from './letter-selection.js'

/** The options of a redrive. `patch` changes payloads as they move: `redrive dlq edit` has it. */
export interface RedriveCommandOptions extends CommonOptions, SelectionOptions {
  readonly patch?: PayloadPatch
  readonly fromStep?: string
  readonly forgetStep?: string
  readonly twin?: TwinRule
  readonly why?: string
  readonly rate?: number
  readonly canary?: number
  readonly stopAbove?: number
  readonly limit?: number
  readonly tasks?: string
  readonly detach?: boolean
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** Adds `redrive dlq redrive`. */
export function addRedrive(dlq: Command, context: CommandContext): void {
  const redrive = dlq.command('redrive').description('Give dead letters fresh attempts; their history stays')
  withMoveOptions(withSelection(redrive, 'Redrive')).action(async (ids: string[], options: RedriveCommandOptions) =>
    context.end(await redriveLetters(context, ids, options)),
  )
  withCommonOptions(redrive).addHelpText(
    'after',
    `
Named dead letters move at once. A filter becomes an operation, on record with
who, why and its outcome: see redrive ops. It covers the dead letters of this
moment, oldest first. At most a window of them is unanswered at a time, so that
new work is not starved. If this terminal closes, a live worker continues it.
Members whose lane is paused, or whose kind no live worker runs, are left alone,
and those whose unique key another task has by now: with --twin replace that one
is cancelled, and with --twin after the letter waits for its end.
Without any live worker all of them move at once, and wait for one.
With --tasks, or 'tasks' in the configuration of the project, letters whose
payload no longer fits the schema of their task are left alone, too.
A task goes on behind the last step on record. With --from-step or --forget-step
its results are forgotten, and the step runs again, with the same key: a service
that remembers the key may answer with its first result.
Ctrl-C stops it after the current batch; run the same command again, or redrive
ops continue, for the rest.
Exits with 3 if it was stopped, or if some dead letters were left alone, and
with 1 if all were.

Examples:
  redrive dlq redrive order-42 order-43
  redrive dlq redrive --kind send-email --dry-run
  redrive dlq redrive --code ECONNREFUSED --why 'the mail server is back'
  redrive dlq redrive --kind mail --canary 10 --stop-above 20% --rate 100/s
  redrive dlq redrive signup-7 --from-step charge --why 'charged back'
  redrive dlq redrive --all --rate 50/s --yes`,
  )
}

/** Adds the flags that say how dead letters are redriven. */
export function withMoveOptions(command: Command): Command {
  return withTasks(command)
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--rate <rate>', "Maximum rate, such as '50/s' or '600/m'", rate)
    .option('--canary <n>', 'Move this many first; their first attempts decide', wholeNumber(1, 1000))
    .option(
      '--stop-above <share>',
      "Stop when more of them fail again, such as '20%' (default: 50%, with --canary 20%)",
      share,
    )
    .addOption(
      new Option('--from-step <name>', 'Run this step again, and those first recorded after it').conflicts(
        'forgetStep',
      ),
    )
    .option('--forget-step <name>', 'Run this step again, and keep the results of all others')
    .addOption(
      new Option('--twin <rule>', 'What to do where another task has the unique key by now (default: skip)').choices(
        TWIN_RULES,
      ),
    )
    .option('--limit <n>', 'Maximum number of dead letters, oldest first', wholeNumber(1, 1_000_000_000))
    .option('--detach', 'Return at once; the live workers carry it out')
    .option('--dry-run', 'Show which dead letters would be moved, and move none')
    .option('-y, --yes', 'Skip the confirmation prompt')
}

/** Redrives dead letters, or shows which ones a redrive would move. */
export function redriveLetters(
  context: CommandContext,
  ids: readonly string[],
  options: RedriveCommandOptions,
): Promise<ExitCode> {
  const select = selectionOf(ids, options)
  return withStore(options, context.environment, async store => {
    const selection = await select(store)
    return options.dryRun ? tryOut(context, store, selection, options) : move(context, store, selection, options)
  })
}

async function tryOut(
  context: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  options: RedriveCommandOptions,
): Promise<ExitCode> {
  const { console } = context
  const { patch, limit, twin } = options
  const step = options.fromStep ?? options.forgetStep
  const makePlan = (sample: { sampleSize: number }) => planRedrive(store, selection, { ...sample, twin, step })
  const { count, refused } = await preview(context, store, options, makePlan)
  const tasks = await tasksFor(selection, options, context)
  const isPlanned = !('ids' in selection) || (tasks ?? patch) !== undefined
  const plan = isPlanned ? await planOperation(store, 'redrive', selection, { tasks, patch, twin }) : undefined
  if (plan !== undefined) sayPlan(console, plan, options)
  if (count === 0 && !('ids' in selection)) await sayNoMatch(context, store, selection, 'dead letters')
  if (count > 0) await sayGates(context, store, selection)
  const left = leftAlone(plan)
  const movable = Math.min(count - left, limit ?? Infinity)
  const which = movable < count - left ? `The oldest ${movable}` : movable
  console.say(`${which} would be moved${courseText(movable, options)}. This was a dry run: 0 moved.`)
  return endOf(movable, refused.length + left)
}

/** `, 10 first: if at most 2 of them fail, the others at up to 20/s` */
function courseText(count: number, { canary = 0, stopAbove = 0.2, rate: perSecond }: RedriveCommandOptions): string {
  const speed = perSecond === undefined ? '' : ` at up to ${rateText(perSecond)}`
  if (canary === 0 || canary >= count) return speed
  return `, ${canary} first: if at most ${Math.floor(canary * stopAbove)} of them fail, the others${speed} too`
}

/** How many members a plan leaves alone at least: a payload that does not fit may have another reason, too. */
function leftAlone(plan: OperationPlan | undefined): number {
  const { refused = [], payloads } = plan ?? {}
  const invalid = payloads?.invalid ?? 0
  return Math.max(invalid, refused.reduce((sum, { count }) => sum + count, 0) - invalid)
}

/** The tasks whose schemas payloads must fit. Named letters move at once, so these are checked only if the flag or a patch asks for it. */
async function tasksFor(
  selection: LetterSelection,
  { tasks, patch }: RedriveCommandOptions,
  { environment }: CommandContext,
): Promise<readonly TaskSchema[] | undefined> {
  return 'ids' in selection && (tasks ?? patch) === undefined ? undefined : loadTasks(tasks, environment)
}

async function move(
  context: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  options: RedriveCommandOptions,
): Promise<ExitCode> {
  const { output, patch, fromStep, forgetStep, twin, why, rate: perSecond, canary, stopAbove, limit, detach } = options
  const { console, environment } = context
  checkPatch('redrive', patch)
  const { count: all, refused } = await planRedrive(store, selection, {
    sampleSize: 0,
    twin,
    step: fromStep ?? forgetStep,
  })
  for (const { text } of refused) console.say(text)
  if (all === 0 && !('ids' in selection)) await sayNoMatch(context, store, selection, 'dead letters')
  const tasks = await tasksFor(selection, options, context)
  const count = all === 0 ? 0 : await confirmedCount(context, store, selection, { ...options, tasks, total: all })

  const settings = {
    who: environment.user,
    why,
    patch,
    fromStep,
    forgetStep,
    twin,
    perSecond,
    canary,
    stopAbove,
    limit,
  }
  if (detach && count > 0)
    return startDetached(context, store, output, () => startOperation(store, 'redrive', selection, settings))
  const { moved, ids, isStopped, operation } = await withCount(
    context,
    { total: count, verb: 'moved', unit: 'batch', rest: restText(selection) },
    progress => redriveDeadLetters(store, selection, { ...settings, tasks, ...progress }),
  )
  if (operation !== undefined) {
    const code = await endOfOperation(context, store, output, operation)
    return code === ExitCode.done ? endOf(moved, refused.length) : code
  }
  writeResult(console, output, { moved, ids, refused, isStopped })
  console.say(`${moved} moved.`)
  for (const batch of batchesOf(ids))
    console.say(`The batch '${batch}' is open again, and ends once more: ${suggest('batch show', {}, batch)}`)
  return isStopped ? ExitCode.partly : endOf(moved, refused.length)
}

/**
 * Says what a redrive would meet, and asks for confirmation. Returns how many dead letters it can move. Whoever does not wait
 * for the outcome learns here which ones are left alone.
 */
async function confirmedCount(
  context: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  { patch, tasks, twin, limit = Infinity, detach, yes, total }: Confirming,
): Promise<number> {
  const { console, environment } = context
  await sayGates(context, store, selection)
  const isPlanned = (!yes || detach) && (!('ids' in selection) || patch !== undefined)
  const plan = isPlanned ? await planOperation(store, 'redrive', selection, { tasks, patch, twin }) : undefined
  if (plan !== undefined && patch !== undefined) sayPlan(console, plan)
  else for (const { reason, count } of plan?.refused ?? []) console.say(refusedText(reason, count))
  const count = Math.min(total - leftAlone(plan), limit)
  if (count === 0) throw new CommandError('None of them can be moved now. 0 moved.')
  if (!yes) {
    await askFirst(environment, {
      question: questionOf(count, patch),
      effect: `This would move ${lettersText(count)}.`,
      nothing: '0 moved.',
    })
  }
  return count
}

interface Confirming extends Omit<RedriveCommandOptions, 'tasks'> {
  readonly tasks: readonly TaskSchema[] | undefined
  /** How many dead letters are selected. */
  readonly total: number
}

function questionOf(count: number, patch: PayloadPatch | undefined): string {
  const letters = lettersText(count)
  return patch === undefined ? `Give ${letters} fresh attempts?` : `Patch and redrive ${letters}?`
}
