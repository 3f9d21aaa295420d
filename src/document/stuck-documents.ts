import type { Shape } from './collection.js'
import type { Cut, DocumentRecord, DocumentSource } from './source.js'

/** Of ten documents, nine come by priority and one by age, so that none waits for ever. */
const BY_PRIORITY = 9
const BY_AGE = 1

/**
 * Pages over stuck documents. All of them are swept unless `limit` says otherwise, so priority matters only with a limit: it
 * decides which documents go first.
 */
export async function* stuckDocuments(
  source: DocumentSource,
  shape: Shape,
  cut: Cut,
  pageSize: number,
  limit: number,
): AsyncIterable<readonly DocumentRecord[]> {
  const selection = { type: 'stuck', cut } as const
  if (shape.priority === undefined || limit === Infinity) {
    yield* source.walk(shape, selection, { pageSize })
    return
  }
  const seen = new Set<string>()
  const next = async (walk: AsyncIterator<DocumentRecord>, count: number) => {
    const taken: DocumentRecord[] = []
    while (taken.length < count) {
      const { done, value } = await walk.next()
      if (done) break
      if (!seen.has(value.id)) taken.push(value)
      seen.add(value.id)
    }
    return taken
  }
  const priority = single(source.walk(shape, selection, { pageSize, order: 'priority' }))
  const age = single(source.walk(shape, selection, { pageSize }))
  for (;;) {
    const page = [...(await next(priority, BY_PRIORITY)), ...(await next(age, BY_AGE))]
    if (page.length === 0) return
    yield page
  }
}

async function* single(pages: AsyncIterable<readonly DocumentRecord[]>): AsyncGenerator<DocumentRecord> {
  for await (const page of pages) yield* page
}
