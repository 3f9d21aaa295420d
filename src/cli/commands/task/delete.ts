import { type Command, Option } from 'commander'
import { type DeletionSelection, deleteTasks, type Refusal } from '../../../operate/index.js'
import { planDeletion, planEnd } from '../../../operate/internal.js'
import type { TaskStatus } from '../../../store/index.js'
import type { StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { endOf } from '../dlq/letter-selection.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import {
  type CommonOptions,
  type FilterOptions,
  nonEmpty,
  withCommonOptions,
  withFilterOptions,
} from '../shared/options.js'
import { tasksText } from './arrange.js'
import { taskFilter } from './filter.js'

interface DeleteCommandOptions extends CommonOptions, FilterOptions {
  readonly status?: TaskStatus
  readonly all?: boolean
  readonly why?: string
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** A running task cannot be deleted. */
const DELETABLE: readonly TaskStatus[] = ['waiting', 'succeeded', 'skipped', 'dead', 'cancelled']

/** Adds `redrive task delete`. */
export function addDelete(task: Command, context: CommandContext): void {
  const command = task.command('delete').description('Delete tasks that wait or have ended, with their history')
  withFilterOptions(command.argument('[ids...]', 'Ids of the tasks'))
    .addOption(new Option('--status <status>', 'Only tasks with this status').choices(DELETABLE))
    .option('--all', 'Delete every task that does not run')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--dry-run', 'Say how many tasks would be deleted, and delete none')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (ids: string[], options: DeleteCommandOptions) =>
      context.end(await deleteSelected(context, ids, options)),
    )
  withCommonOptions(command).addHelpText(
    'after',
    `
It cannot be undone: payload, result and history are gone. The audit log keeps
the ids, with who and why. The id of a deleted task is free again. Running tasks
are left alone, and so are items of pipelines and members of batches, which are
counted: they go with their run or batch, by retention. To delete what is old,
see redrive prune; to keep the history, see redrive task cancel and redrive dlq
discard. Ctrl-C stops it after the current batch. Exits with 3 if it was stopped,
or if some of the named tasks were left alone, and with 1 if all were.

Examples:
  redrive task delete order-42 --why 'asked to be forgotten'
  redrive task delete --kind import --status cancelled --dry-run
  redrive task delete --where payload.user=ada --why 'asked to be forgotten'`,
  )
}

function deleteSelected(
  context: CommandContext,
  ids: readonly string[],
  options: DeleteCommandOptions,
): Promise<ExitCode> {
  const { kind, category, key, code, group, where, status, all } = options
  const hasFilter = [kind, category, key, code, group, where, status].some(value => value !== undefined)
  if ([ids.length > 0, hasFilter, all === true].filter(Boolean).length > 1)
    throw new UsageError('Pass ids, a filter or --all, but only one of them.')
  if (ids.length === 0 && !hasFilter && !all)
    throw new UsageError('Which tasks? Pass ids, a filter such as --kind or --status, or --all.')
  return withStore(options, context.environment, async store => {
    const until = await store.now()
    const selection = await selectionOf(store, ids, options)
    const plan = await planned(context.console, store, selection)
    return options.dryRun
      ? tryOut(context, plan, options)
      : carryOut(context, store, selection, plan, { ...options, until })
  })
}

async function selectionOf(
  store: StoreContract,
  ids: readonly string[],
  { status, all, ...options }: DeleteCommandOptions,
): Promise<DeletionSelection> {
  if (ids.length > 0) return { ids }
  return all ? { all } : { filter: { ...(await taskFilter(store, options)), ...(status && { status }) } }
}

/** How many tasks would be deleted, why named ones would not, and a note about those that wait. */
interface Plan {
  readonly count: number
  readonly refused: readonly Refusal[]
  readonly note: string
}

async function planned(console: Console, store: StoreContract, selection: DeletionSelection): Promise<Plan> {
  if ('ids' in selection) {
    const { ids, refused } = await planEnd(store, 'delete', selection.ids)
    return { count: ids.length, refused, note: '' }
  }
  const { count, waiting, running, items } = await planDeletion(store, selection)
  if (running > 0) console.say(`${tasksText(running)} left alone: running.`)
  if (items > 0) console.say(`${tasksText(items)} left alone: items of pipelines.`)
  const note = waiting === 0 ? '' : ` ${waiting} of them ${waiting === 1 ? 'waits' : 'wait'}, and would never run.`
  return { count, refused: [], note }
}

function tryOut(
  { console }: CommandContext,
  { count, refused, note }: Plan,
  { output }: DeleteCommandOptions,
): ExitCode {
  for (const { text } of refused) console.say(text)
  writeResult(console, output, { deleted: 0, wouldDelete: count, refused, isStopped: false })
  console.say(`${tasksText(count)} would be deleted for good.${note} This was a dry run: 0 deleted.`)
  return endOf(count, refused.length)
}

async function carryOut(
  context: CommandContext,
  store: StoreContract,
  selection: DeletionSelection,
  { count, note }: Plan,
  { output, why, yes, until }: DeleteCommandOptions & { readonly until: number },
): Promise<ExitCode> {
  const { console, environment } = context
  if (count > 0 && !yes) {
    const effect = `This would delete ${tasksText(count)} for good, with their history.${note}`
    await askFirst(environment, {
      question: `Delete ${tasksText(count)} for good, with their history?${note}`,
      effect,
      nothing: '0 deleted.',
    })
  }
  const { deleted, refused, isStopped } = await withCount(
    context,
    { total: count, verb: 'deleted', unit: 'batch', rest: 'Run the same command again to continue.' },
    progress =>
      deleteTasks(store, selection, { who: environment.user, ...(why !== undefined && { why }), until, ...progress }),
  )
  for (const { text } of refused) console.say(text)
  writeResult(console, output, { deleted, refused, isStopped })
  console.say(`${deleted} deleted.`)
  return isStopped ? ExitCode.partly : endOf(deleted, refused.length)
}
