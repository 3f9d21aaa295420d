import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Movable, type MovedRow, SORTS, type Sort } from './movable.js'

/** How much is read and written at a time: what is in memory, and what is done again after an interruption. */
const PAGE = 100

/** What a store holds of a sort, page by page. Stops with the reason of the signal. */
export async function* pagesOf(
  store: Pick<Movable, 'exportPage'>,
  sort: Sort,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly MovedRow[]> {
  let after: string | undefined
  do {
    // SQLite answers within a turn of the event loop, and in that no signal is heard.
    await nextTurn()
    signal?.throwIfAborted()
    const page = await store.exportPage(sort, { limit: PAGE, after })
    yield page.items
    after = page.next
  } while (after !== undefined)
}

/** What two stores hold of a sort, in the order of the keys; those with the same key are one pair. */
export async function* sideBySide(
  [first, second]: readonly [Pick<Movable, 'exportPage'>, Pick<Movable, 'exportPage'>],
  sort: Sort,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly [MovedRow | undefined, MovedRow | undefined]> {
  const [left, right] = [rowsOf(pagesOf(first, sort, signal)), rowsOf(pagesOf(second, sort, signal))]
  let [a, b] = [await left.next(), await right.next()]
  while (!(a.done && b.done)) {
    const order = a.done ? 1 : b.done ? -1 : compareKeys(sort, a.value, b.value)
    yield [order <= 0 ? a.value : undefined, order >= 0 ? b.value : undefined]
    if (order <= 0) a = await left.next()
    if (order >= 0) b = await right.next()
  }
}

async function* rowsOf(pages: AsyncGenerator<readonly MovedRow[]>): AsyncGenerator<MovedRow, undefined> {
  for await (const page of pages) yield* page
  return undefined
}

function compareKeys(sort: Sort, a: MovedRow, b: MovedRow): number {
  for (const column of SORTS[sort].key) {
    const order = compare(a[column], b[column])
    if (order !== 0) return order
  }
  return 0
}

/** Both databases order texts by their bytes in UTF-8, which is not the order of JavaScript's strings. */
function compare(a: MovedRow[string] | undefined, b: MovedRow[string] | undefined): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b)))
}
