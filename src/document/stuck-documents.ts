import type { Shape } from './collection.js'
import type { Cut, DocumentRecord, DocumentSource } from './source.js'

/** The share of documents that go by priority. The others go by age, so that none waits for ever. */
const BY_PRIORITY = 0.9

/** A page of stuck documents. */
export interface StuckPage {
  readonly documents: readonly DocumentRecord[]
  /** The page jumps the queue: its documents come again by age, unless they were requeued meanwhile. */
  readonly isAhead: boolean
}

/**
 * Pages over all stuck documents by age. With a priority, pages by priority come in between, nine documents for each one by
 * age. Nothing is remembered of them: what was requeued has left the selection, and what was not comes again.
 */
export async function* stuckPages(
  source: DocumentSource,
  shape: Shape,
  cut: Cut,
  pageSize: number,
): AsyncIterable<StuckPage> {
  const selection = { type: 'stuck', cut } as const
  const ahead = shape.priority === undefined ? 0 : Math.max(1, Math.round(pageSize * BY_PRIORITY))
  const byAge = source.walk(shape, selection, { pageSize: Math.max(1, pageSize - ahead) })
  if (ahead === 0) {
    for await (const documents of byAge) yield { documents, isAhead: false }
    return
  }
  const byPriority = source.walk(shape, selection, { pageSize: ahead, order: 'priority' })[Symbol.asyncIterator]()
  try {
    for await (const documents of startingWith(byPriority, byAge)) yield documents
  } finally {
    await byPriority.return?.()
  }
}

/** Takes a page from the first in turn with the second, until the second ends. */
async function* startingWith(
  first: AsyncIterator<readonly DocumentRecord[]>,
  second: AsyncIterable<readonly DocumentRecord[]>,
): AsyncIterable<StuckPage> {
  const { done, value } = await first.next()
  if (!done) yield { documents: value, isAhead: true }
  for await (const documents of second) {
    yield { documents, isAhead: false }
    const next = await first.next()
    if (!next.done) yield { documents: next.value, isAhead: true }
  }
}
