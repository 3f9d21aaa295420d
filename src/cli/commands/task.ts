import { type Command, Option } from 'commander'
import type { TaskStatus } from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode } from '../errors.js'
import { writeOne } from '../terminal/output.js'
import { historyTable } from './history.js'
import { withStore } from './open-store.js'
import {
  type CommonOptions,
  type ListOptions,
  withCommonOptions,
  withFilterOptions,
  withPageOptions,
} from './options.js'
import { listTasks } from './task-list.js'
import { maxAttemptsOf, taskTable, taskText } from './task-text.js'
import { ledgerRowJson, taskJson } from './task-view.js'

const STATUSES: readonly TaskStatus[] = ['waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled']

/** Adds `redrive task`. */
export function addTask(program: Command, context: CommandContext): void {
  const task = program.command('task').helpCommand(false).description('look at tasks')

  const ls = task
    .command('ls')
    .description('list tasks, those that changed last first')
    .addOption(new Option('--status <status>', 'only in this state').choices(STATUSES))
    .action(async (options: ListOptions & { readonly status?: TaskStatus }) =>
      context.end(await listTasks(context, options, { toTable: taskTable, none: 'No tasks.' })),
    )
  withCommonOptions(withPageOptions(withFilterOptions(ls))).addHelpText(
    'after',
    `
Examples:
  redrive task ls --status waiting
  redrive task ls --kind send-email --key tenant-7 --limit 10
  redrive task ls --output jsonl | jq -r .id`,
  )

  const show = task
    .command('show')
    .description('show a task with its whole history')
    .argument('<id>', 'the id of the task')
    .action(async (id: string, options: CommonOptions) => context.end(await showTask(context, id, options)))
  withCommonOptions(show).addHelpText(
    'after',
    `
Examples:
  redrive task show order-42
  redrive task show order-42 --output json | jq '.history[].error'`,
  )
}

function showTask({ console, environment }: CommandContext, id: string, options: CommonOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const task = await store.get(id)
    if (task === undefined) throw new CommandError(`There is no task '${id}'. To see which there are: redrive task ls`)
    const history = await store.ledger(id)
    const maxAttempts = await maxAttemptsOf(store, history)
    const now = await store.now()
    writeOne(
      console,
      options.output,
      { ...taskJson(task), maxAttempts: maxAttempts ?? null, history: history.map(ledgerRowJson) },
      () => [taskText(task, console, now, maxAttempts), '', historyTable(history, console)].join('\n'),
    )
    return ExitCode.done
  })
}
