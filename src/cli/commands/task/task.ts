import { type Command, Option } from 'commander'
import type { TaskExplanation } from '../../../operate/index.js'
import { followTask } from '../../../operate/internal.js'
import type { TaskStatus } from '../../../store/index.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode } from '../../errors.js'
import { suggest } from '../../suggest.js'
import type { Console } from '../../terminal/console.js'
import { writeOne } from '../../terminal/output.js'
import { signalsOf } from '../../terminal/signals.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import {
  type ListOptions,
  nonEmpty,
  withBatchOption,
  withCommonOptions,
  withFilterOptions,
  withPageOptions,
} from '../shared/options.js'
import { withTaskCodecs } from '../worker/load-work.js'
import { addArrange } from './arrange.js'
import { addCancel } from './cancel.js'
import { addDelete } from './delete.js'
import { addEdit } from './edit.js'
import { addEnd } from './end.js'
import { explained, type ShowOptions } from './explain.js'
import { historyTable, stackLines } from './history.js'
import { printTasks } from './list.js'
import { newsLines, notesLines } from './notes.js'
import { stepLines } from './steps.js'
import { taskTable, taskText } from './text.js'

const STATUSES: readonly TaskStatus[] = ['waiting', 'running', 'succeeded', 'skipped', 'dead', 'cancelled']

/** Adds `redrive task`. */
export function addTask(program: Command, context: CommandContext): void {
  const task = program
    .command('task')
    .helpCommand(false)
    .description('List, show, cancel, end, edit, delete and reorder tasks')

  const ls = task
    .command('ls')
    .description('List tasks, most recently changed first')
    .addOption(new Option('--status <status>', 'Only tasks with this status').choices(STATUSES))
    .option('--unique <key>', 'Only tasks that were enqueued with this unique key', nonEmpty)
    .action(async (options: ListOptions & { readonly status?: TaskStatus; readonly batch?: string }) =>
      context.end(await printTasks(context, options, { toTable: taskTable, what: 'tasks' })),
    )
  withCommonOptions(withPageOptions(withBatchOption(withFilterOptions(ls)))).addHelpText(
    'after',
    `
CHANGED is when a task reached its status: when a running one started. NEXT is
when a waiting one may start: 'paused' and 'gated' if somebody, or a failure
budget, keeps it back (see redrive why). Tasks of a batch come in the order in
which they were added.

Examples:
  redrive task ls --status waiting
  redrive task ls --kind send-email --key tenant-7 --limit 10
  redrive task ls --batch newsletter-42 --status dead
  redrive task ls --unique invoice-7
  redrive task ls --output jsonl | jq -r .id`,
  )

  const show = task
    .command('show')
    .description('Show a task and its history')
    .argument('<id>', 'Id of the task')
    .option('--watch', 'Print what its handler tells and how it goes on, until it has ended or Ctrl-C')
    .action(async (id: string, options: WatchOptions) =>
      context.end(await (options.watch ? watchTask : showTask)(context, id, options)),
    )
  withCommonOptions(withTaskCodecs(show)).addHelpText(
    'after',
    `
The progress and the last lines of a running task are those that its worker
brought along with its last heartbeat: a third of its lease ago at most.

Examples:
  redrive task show order-42
  redrive task show import-7 --watch
  redrive task show order-42 --output json | jq '.history[].error'`,
  )

  addCancel(task, context)
  addEnd(task, context)
  addDelete(task, context)
  addEdit(task, context)
  addArrange(task, context)
}

interface WatchOptions extends ShowOptions {
  readonly watch?: boolean
}

function showTask({ console, environment }: CommandContext, id: string, options: ShowOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const task = await explained(store, id, options, environment)
    if (task === undefined) throw noTask(id)
    const now = await store.now()
    writeOne(console, options.output, task, () => wholeText(task, console, now))
    return ExitCode.done
  })
}

/** Shows a task, and then only what is new of it. For programs it is written whole each time. */
function watchTask({ console, environment }: CommandContext, id: string, options: ShowOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const signals = signalsOf(environment)
    const stop = new AbortController()
    void signals.next().then(() => stop.abort())
    let last: TaskExplanation | undefined
    try {
      for await (const task of followTask(() => explained(store, id, options, environment), stop.signal)) {
        const now = await store.now()
        const lines = last === undefined ? [wholeText(task, console, now)] : newsLines(task, last, console)
        if (options.output !== 'table' || lines.length > 0)
          writeOne(console, options.output, task, () => lines.join('\n'))
        last = task
      }
    } finally {
      signals.close()
    }
    if (last === undefined) throw noTask(id)
    return ExitCode.done
  })
}

function wholeText(task: TaskExplanation, console: Console, now: number): string {
  return [
    taskText(task, console, now),
    ...stackLines(task, console),
    ...stepLines(task.steps, console, now),
    ...notesLines(task, console, now),
    '',
    historyTable(task, console),
  ].join('\n')
}

function noTask(id: string): CommandError {
  return new CommandError(`There is no task ${quoted(id)}. To list tasks, run: ${suggest('task ls')}`)
}
