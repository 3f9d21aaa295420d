import type { NewMessage } from '../bus/index.js'
import { emit } from '../telemetry/internal.js'
import type { Collection } from './collection.js'
import { dispatched, eventOf, undispatched } from './dispatch.js'
import { documentWorkId } from './judge-document.js'
import { refusalsIn } from './refusals.js'
import type { Change, DocumentRecord } from './source.js'
import type { Counts, LiveSweep } from './sweep-context.js'

/** A document's update, and the event that follows it. */
interface Dispatch extends Change {
  readonly message: NewMessage
}

/** Updates and publishes a page of documents. Returns false if nothing could be published. */
export async function requeuePage(
  collection: Collection,
  due: readonly DocumentRecord[],
  counts: Counts,
  { source, bus, sink }: LiveSweep,
): Promise<boolean> {
  if (due.length === 0) return true
  const now = await source.now()
  const dispatches = due.flatMap(document => dispatchOf(collection, document, now, counts))
  const refusals = refusalsIn(counts)
  const updated = await source.change(collection.shape, dispatches, refusals.add)
  counts.missed += dispatches.length - updated.length - refusals.count
  const byId = new Map(dispatches.map(dispatch => [dispatch.document.id, dispatch]))
  const back: Change[] = []
  let published = 0
  const publish = async (document: DocumentRecord) => {
    const dispatch = byId.get(document.id)
    if (dispatch === undefined) return
    try {
      await bus.publish(dispatch.message)
      published++
      if (sink !== undefined) emit(sink, sweptEvent(collection, document, now))
    } catch (error) {
      counts.publishError ??= error ?? new Error('The event could not be published.')
      const to = undispatched(collection, dispatch.document, error, now)
      if (to !== undefined) back.push({ document, to })
    }
  }
  await Promise.all(updated.map(publish))
  counts.requeued += published
  counts.publishErrors += updated.length - published
  if (back.length > 0) await source.change(collection.shape, back)
  return updated.length === 0 || published > 0
}

/** The event is made before the update: a document of which none can be made is left alone, and costs the others nothing. */
function dispatchOf(collection: Collection, document: DocumentRecord, now: number, counts: Counts): Dispatch[] {
  const to = dispatched(collection, document, now)
  try {
    return [{ document, to, message: eventOf(collection, { ...document, ...to }, now) }]
  } catch (error) {
    counts.documentErrors++
    counts.documentError ??= error ?? new Error('The event of a document could not be made.')
    return []
  }
}

function sweptEvent(collection: Collection, { id, attemptCount }: DocumentRecord, at: number) {
  const { name, policy, countsAtBegin } = collection
  const attempt = countsAtBegin ? attemptCount + 1 : attemptCount
  const work = { kind: 'document', id: documentWorkId(collection, id), name } as const
  return { type: 'swept', work, at, attempt, maxAttempts: policy.attempts } as const
}
