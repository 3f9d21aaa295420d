import { setImmediate as nextTurn } from 'node:timers/promises'
import { compareTexts } from '../rules/cursor.js'
import { type Movable, type MovedRow, SECTIONS, type Section } from './movable.js'

/** The rows per page: what is held in memory, and what is repeated after an interruption. */
const PAGE = 100

/** Reads a section of a store page by page. Throws the reason of the signal when it aborts. */
export async function* pagesOf(
  store: Pick<Movable, 'exportPage'>,
  section: Section,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly MovedRow[]> {
  let after: string | undefined
  do {
    // SQLite answers within one turn of the event loop, during which no signal can arrive.
    await nextTurn()
    signal?.throwIfAborted()
    const page = await store.exportPage(section, { limit: PAGE, after })
    yield page.items
    after = page.next
  } while (after !== undefined)
}

/** Reads the same section of two stores in the order of its keys; rows with the same key come as a pair. */
export async function* sideBySide(
  [first, second]: readonly [Pick<Movable, 'exportPage'>, Pick<Movable, 'exportPage'>],
  section: Section,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly [MovedRow | undefined, MovedRow | undefined]> {
  const [left, right] = [rowsOf(pagesOf(first, section, signal)), rowsOf(pagesOf(second, section, signal))]
  let [a, b] = [await left.next(), await right.next()]
  while (!(a.done && b.done)) {
    const order = a.done ? 1 : b.done ? -1 : compareKeys(section, a.value, b.value)
    yield [order <= 0 ? a.value : undefined, order >= 0 ? b.value : undefined]
    if (order <= 0) a = await left.next()
    if (order >= 0) b = await right.next()
  }
}

async function* rowsOf(pages: AsyncGenerator<readonly MovedRow[]>): AsyncGenerator<MovedRow, undefined> {
  for await (const page of pages) yield* page
  return undefined
}

function compareKeys(section: Section, a: MovedRow, b: MovedRow): number {
  for (const column of SECTIONS[section].key) {
    const order = compare(a[column], b[column])
    if (order !== 0) return order
  }
  return 0
}

/** Both databases order text by its UTF-8 bytes, which is not the order of JavaScript strings. */
function compare(a: MovedRow[string] | undefined, b: MovedRow[string] | undefined): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return compareTexts(String(a), String(b))
}
