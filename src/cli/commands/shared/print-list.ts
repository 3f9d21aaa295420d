import { pagesOf } from '../../../operate/internal.js'
import type { Page, PageRequest } from '../../../store/index.js'
import { ExitCode } from '../../errors.js'
import { grouped } from '../../terminal/chart.js'
import type { Console } from '../../terminal/console.js'
import { type ListFormat, type OutputFormat, writePages } from '../../terminal/output.js'
import { shellWord } from '../../terminal/visible.js'

/** The flags of a list. */
export interface PageOptions {
  readonly output: OutputFormat
  readonly limit: number
  readonly after?: string
  readonly all?: boolean
}

/** A list that is read page by page. */
export interface List<T> extends Omit<ListFormat<T>, 'format'> {
  readonly read: (page: PageRequest) => Promise<Page<T>>
  /** The length of the whole list, where the store can tell. */
  readonly total?: () => Promise<number>
  /** Printed if the list is empty. */
  readonly none: () => Promise<string> | string
}

/** Prints a page of a list, and says how many more there are; with `all`, prints every page. */
export async function printList<T>(console: Console, options: PageOptions, list: List<T>): Promise<ExitCode> {
  const { limit, after, all, output: format } = options
  let next: string | undefined
  let searched: number | undefined
  async function* onePage() {
    const page = await list.read({ limit, after })
    next = page.next
    searched = page.searched
    yield page.items
  }
  const shown = await writePages(console, all ? pagesOf(list.read) : onePage(), { ...list, format })
  if (searched !== undefined && next !== undefined) {
    const of = await list.total?.()
    const tasks = of === undefined ? `${grouped(searched)} tasks` : `${grouped(searched)} of ${grouped(of)} tasks`
    console.say(`${grouped(shown)} found; searched ${tasks}. Narrow the search by --kind, for example,`)
    console.say(`or go on with --after ${shellWord(next)}; for all, pass --all.`)
    return ExitCode.done
  }
  if (shown === 0) console.say(await list.none())
  if (next !== undefined) {
    const total = await list.total?.()
    const count =
      total === undefined ? `${grouped(shown)}, and there are more.` : `${grouped(shown)} of ${grouped(total)}.`
    console.say(`${count} For the next ones, pass --after ${shellWord(next)}; for all, --all.`)
  }
  return ExitCode.done
}
