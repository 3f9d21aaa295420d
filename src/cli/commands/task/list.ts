import { findBatch, type TaskView, taskView } from '../../../operate/index.js'
import type { PageRequest, TaskStatus } from '../../../store/index.js'
import type { CommandContext } from '../../command.js'
import type { ExitCode } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import type { Layout } from '../../terminal/table.js'
import { quoted } from '../../terminal/visible.js'
import { NextStarts } from '../ops/next-start.js'
import { noMatch } from '../shared/no-match.js'
import { withStore } from '../shared/open-store.js'
import type { ListOptions } from '../shared/options.js'
import { printList } from '../shared/print-list.js'
import { taskFilter } from './filter.js'

/** How a list is shown to people. */
interface Look {
  readonly toTable: (
    tasks: readonly TaskView[],
    console: Console,
    now: number,
    layout: Layout,
    starts: NextStarts,
  ) => string
  /** The name of what is listed: `dead letters`. */
  readonly what: string
}

/** Prints the tasks that match, newest change first. */
export function printTasks(
  { console, environment }: CommandContext,
  options: ListOptions & { readonly status?: TaskStatus; readonly batch?: string },
  { toTable, what }: Look,
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const filter = { ...(await taskFilter(store, options)), status: options.status }
    const now = await store.now()
    const starts = new NextStarts(store)
    const { batch, status } = options
    const read = (page: PageRequest) =>
      batch === undefined ? store.list(filter, page) : store.batches.members(batch, status, page)
    return printList(console, options, {
      read: async page => {
        const found = await read(page)
        if (options.output === 'table') await starts.look(found.items)
        return found
      },
      total: async () => {
        // Counting those with a payload would search all of them.
        if (batch !== undefined) {
          const { total, counts } = await findBatch(store, batch)
          return status === undefined ? total : counts[status]
        }
        const counts = await store.count({ ...filter, where: undefined })
        return Object.values(counts).reduce((sum, count) => sum + count, 0)
      },
      toJson: taskView,
      toTable: (tasks, layout) => toTable(tasks.map(taskView), console, now, layout, starts),
      none: () => (batch === undefined ? noMatch(store, what, filter) : `No such tasks in the batch ${quoted(batch)}.`),
    })
  })
}
