import type { TaskRecord, TaskStatus } from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode } from '../errors.js'
import type { Console } from '../terminal/console.js'
import { moreAfter, writeList } from '../terminal/output.js'
import { withStore } from './open-store.js'
import type { ListOptions } from './options.js'
import { taskJson } from './task-view.js'

/** How a list is shown to a person. */
interface Look {
  readonly toTable: (tasks: readonly TaskRecord[], console: Console, now: number) => string
  /** Said when there is nothing in it. */
  readonly none: string
}

/** Writes a page of the tasks that match, those that changed last first. */
export function listTasks(
  { console, environment }: CommandContext,
  options: ListOptions & { readonly status?: TaskStatus },
  { toTable, none }: Look,
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const { status, kind, category, key, code: errorCode, limit, after } = options
    const { items, next } = await store.list({ status, kind, category, key, errorCode }, { limit, after })
    const now = await store.now()
    writeList(console, options.output, items, { toJson: taskJson, toTable: tasks => toTable(tasks, console, now) })
    if (items.length === 0) console.say(none)
    if (next !== undefined) console.say(moreAfter(next))
    return ExitCode.done
  })
}
