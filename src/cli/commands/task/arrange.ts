import { type Command, Option } from 'commander'
import { type LetterSelection, planOperation, startOperation } from '../../../operate/index.js'
import { actOnMany } from '../../../operate/internal.js'
import { type ArrangingAct, MOVED, type StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { endOf, type SelectionOptions, selectionOf } from '../dlq/letter-selection.js'
import { endOfOperation, leftAlone, restText, sayMembers, sayNoMatch, startDetached } from '../ops/text.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import {
  type CommonOptions,
  duration,
  moment,
  nonEmpty,
  number,
  rate,
  wholeNumber,
  withCommonOptions,
  withFilterOptions,
} from '../shared/options.js'

interface ArrangeOptions extends CommonOptions, SelectionOptions {
  readonly why?: string
  readonly rate?: number
  readonly limit?: number
  readonly detach?: boolean
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** A change to tasks that wait. */
interface Change {
  readonly act: ArrangingAct
  readonly runAt?: number
  readonly priority?: number
}

const HELP = `
It is an operation, on record: ops show has who, why and how many, and ops undo
gives the tasks back what they had, unless they have run since.
A filter takes the tasks that were submitted by now. Tasks that run are left
alone, and so are others for whom it would change nothing; it says how many.
Exits with 3 if it was stopped, or if some tasks were left alone for another
reason, and with 1 if all were.
`

/** Adds `redrive task promote`, `reschedule` and `prioritize`. */
export function addArrange(task: Command, context: CommandContext): void {
  const promote = task.command('promote').description('Make tasks due that wait for their time')
  withArrangeOptions(promote, 'promoted').action(async (ids: string[], options: ArrangeOptions) =>
    context.end(await arrangeSelected(context, ids, options, async () => ({ act: 'promote' }))),
  )
  withCommonOptions(promote).addHelpText(
    'after',
    `${HELP}
Pauses, limits, budgets and rate limits hold for a promoted task as before:
redrive why says what it waits for.

Examples:
  redrive task promote order-42
  redrive task promote --kind charge --code http_502 --why 'the gateway is back'
  redrive task promote --kind charge --rate 50/s --dry-run`,
  )

  const reschedule = task.command('reschedule').description('Give tasks that wait another time')
  withArrangeOptions(reschedule, 'rescheduled')
    .option('--at <time>', 'Time of the next attempt, such as 2027-03-01T08:00Z', moment)
    .addOption(
      new Option('--in <duration>', "The same, counted from now: '30m', '12h'").argParser(duration(0)).conflicts('at'),
    )
    .action(async (ids: string[], options: ArrangeOptions & { readonly at?: number; readonly in?: number }) => {
      const { at, in: inMs } = options
      if (at === undefined && inMs === undefined) throw new UsageError('Pass the new time: --at or --in.')
      const change = async (store: StoreContract) =>
        ({ act: 'reschedule', runAt: at ?? (await store.now()) + (inMs ?? 0) }) as const
      context.end(await arrangeSelected(context, ids, options, change))
    })
  withCommonOptions(reschedule).addHelpText(
    'after',
    `${HELP}
Tasks in ordered lanes are left alone, too: there the next one waits for them.
The time to live of a task that has made no attempt begins at its new time.

Examples:
  redrive task reschedule order-42 --in 2h
  redrive task reschedule --kind send-newsletter --at 2027-03-01T08:00Z --dry-run`,
  )

  const prioritize = task.command('prioritize').description('Give tasks that wait another priority')
  withArrangeOptions(prioritize, 'prioritized')
    .requiredOption('--priority <n>', 'The new priority: higher goes first, and 0 is the default', number)
    .action(async (ids: string[], options: ArrangeOptions & { readonly priority: number }) =>
      context.end(
        await arrangeSelected(context, ids, options, async () => ({ act: 'prioritize', priority: options.priority })),
      ),
    )
  withCommonOptions(prioritize).addHelpText(
    'after',
    `${HELP}
Tasks in ordered lanes are left alone, too: their order is kept. Lanes with a key
take turns, so a priority counts among the tasks of one such lane.

Examples:
  redrive task prioritize order-42 --priority 10
  redrive task prioritize --kind report --where payload.plan=free --priority -5`,
  )
}

function withArrangeOptions(command: Command, done: string): Command {
  return withFilterOptions(command.argument('[ids...]', 'Ids of the tasks'))
    .option('--all', 'Every task that waits')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--rate <rate>', "Maximum rate, such as '50/s' or '600/m'", rate)
    .option('--limit <n>', 'Maximum number of tasks, in the order of their ids', wholeNumber(1, 1_000_000_000))
    .option('--detach', 'Return at once; the live workers carry it out')
    .option('--dry-run', `Say how many tasks would be ${done}, and change none`)
    .option('-y, --yes', 'Skip the confirmation prompt, which a filter and --all have')
}

async function arrangeSelected(
  context: CommandContext,
  ids: readonly string[],
  options: ArrangeOptions,
  changeOf: (store: StoreContract) => Promise<Change>,
): Promise<ExitCode> {
  const select = selectionOf(ids, options, 'tasks')
  return withStore(options, context.environment, async store => {
    const selection = await select(store)
    const change = await changeOf(store)
    return options.dryRun
      ? tryOut(context, store, selection, change, options)
      : carryOut(context, store, selection, change, options)
  })
}

/** How many tasks a change would reach at most, and how many it would leave alone that it should not. */
interface Reach {
  readonly movable: number
  readonly left: number
  /** Named tasks that have ended or do not exist: those of `left` that are no members of an operation. */
  readonly missing: number
}

async function reachOf(
  { console }: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  { act }: Change,
  { limit = Infinity, isSaid }: Pick<ArrangeOptions, 'limit'> & { readonly isSaid: boolean },
): Promise<Reach> {
  const plan = await planOperation(store, act, selection)
  if (isSaid) sayMembers(console, plan)
  const missing = 'ids' in selection ? new Set(selection.ids).size - plan.count : 0
  if (missing > 0) console.say(`${missing} left alone: they have ended, or do not exist.`)
  const refused = plan.refused.map(({ reason, count }) => [reason, count] as const)
  const all = refused.reduce((sum, [, count]) => sum + count, 0)
  return { movable: Math.min(plan.count - all, limit), left: leftAlone(Object.fromEntries(refused)) + missing, missing }
}

async function tryOut(
  context: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  change: Change,
  { limit }: ArrangeOptions,
): Promise<ExitCode> {
  const { movable, left } = await reachOf(context, store, selection, change, { limit, isSaid: true })
  if (movable + left === 0) await sayNoMatch(context, store, selection, 'tasks')
  const done = MOVED[change.act]
  context.console.say(`${tasksText(movable)} would be ${done}. This was a dry run: 0 ${done}.`)
  return endOf(movable, left)
}

async function carryOut(
  context: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  change: Change,
  { output, why, rate: perSecond, limit, detach, yes }: ArrangeOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  const { act, ...values } = change
  const done = MOVED[act]
  const isAsked = !yes && !('ids' in selection)
  const reach = await reachOf(context, store, selection, change, { limit, isSaid: isAsked || detach === true })
  const { movable: total } = reach
  if (isAsked && total > 0) {
    const effect = `${tasksText(total)} would be ${done}.`
    await askFirst(environment, { question: `${effect} Go on?`, effect, nothing: `0 ${done}.` })
  }
  const settings = { who: environment.user, why, perSecond, limit, ...values }
  if (detach && total > 0)
    return startDetached(context, store, output, () => startOperation(store, act, selection, settings))
  const operation = await withCount(
    context,
    { total, verb: done, unit: 'batch', rest: restText(selection) },
    progress => actOnMany(store, act, selection, { ...settings, ...progress }),
  )
  if (operation !== undefined) {
    const code = await endOfOperation(context, store, output, operation)
    return code === ExitCode.done ? endOf(operation.moved, reach.missing) : code
  }
  await sayNoMatch(context, store, selection, 'tasks')
  writeResult(console, output, { [done]: 0, isStopped: false, operation: null })
  console.say(`0 ${done}.`)
  return ExitCode.done
}

/** `1 task`, `2 tasks` */
export function tasksText(count: number): string {
  return count === 1 ? '1 task' : `${count} tasks`
}
