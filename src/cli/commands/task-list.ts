import { listTasks, type TaskView } from '../../operate/index.js'
import type { TaskStatus } from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode } from '../errors.js'
import type { Console } from '../terminal/console.js'
import { moreAfter, writeList } from '../terminal/output.js'
import { withStore } from './open-store.js'
import type { ListOptions } from './options.js'

/** How a list is shown to people. */
interface Look {
  readonly toTable: (tasks: readonly TaskView[], console: Console, now: number) => string
  /** Printed if the list is empty. */
  readonly none: string
}

/** Prints a page of the tasks that match, newest change first. */
export function printTasks(
  { console, environment }: CommandContext,
  options: ListOptions & { readonly status?: TaskStatus },
  { toTable, none }: Look,
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const { status, kind, category, key, code: errorCode, limit, after } = options
    const { items, next } = await listTasks(store, { status, kind, category, key, errorCode }, { limit, after })
    const now = await store.now()
    writeList(console, options.output, items, tasks => toTable(tasks, console, now))
    if (items.length === 0) console.say(none)
    if (next !== undefined) console.say(moreAfter(next))
    return ExitCode.done
  })
}
