import { hashJson } from '../policy/index.js'
import type { ClaimedTask, NewTask, Settlement, Store } from '../store/index.js'
import { failureText } from '../telemetry/index.js'
import type { Collection } from './collection.js'
import { failureOf, type GivenUp } from './given-up.js'
import { STUCK } from './judge-document.js'
import { resetValues } from './reset.js'
import type { DocumentRecord, DocumentSource } from './source.js'

/** The payload of a document's dead letter: a reference. The document itself stays in its collection. */
interface Reference {
  readonly collection: string
  readonly id: string
  readonly lastAttemptAt: number | null
}

/** Letters are looked at in pages of this size. */
const PAGE = 500
const LEASE_MS = 60_000
const WORKER = 'redrive-sweeper'

/** The kind of the dead letters of a collection's documents. */
export function letterKind(collection: string): string {
  return `document:${collection}`
}

/** Records a dead letter for each document. Repeating it changes nothing: its id comes from the document's last attempt. */
export async function recordLetters(
  store: Store,
  collection: Collection,
  givenUp: readonly GivenUp[],
  now: number,
): Promise<void> {
  await store.enqueue(givenUp.map(entry => letterOf(collection, entry, now)))
}

function letterOf({ name }: Collection, entry: GivenUp, now: number): NewTask {
  const { document, reason, verdict = STUCK } = entry
  const reference: Reference = { collection: name, id: document.id, lastAttemptAt: document.lastAttemptAt ?? null }
  return {
    id: `document-${hashJson({ ...reference, attemptCount: document.attemptCount })}`,
    kind: letterKind(name),
    payload: JSON.stringify(reference),
    tried: {
      outcome: { type: 'dead', reason },
      attempt: {
        attempt: Math.max(document.attemptCount, 1),
        startedAt: document.lastAttemptAt ?? now,
        endedAt: now,
        worker: WORKER,
        verdict,
        error: failureText(failureOf(entry)),
      },
    },
  }
}

/**
 * Brings dead letters and documents together: a letter that was redriven resets its document, and a letter whose document
 * is no longer failed, because it was reset, deleted or attempted again, is discarded.
 */
export async function reconcileLetters(
  store: Store,
  source: DocumentSource,
  collections: readonly Collection[],
): Promise<void> {
  for (const collection of collections) await redriveStale(store, source, collection)
  const kinds = collections.map(({ name }) => letterKind(name))
  const byKind = new Map(collections.map(collection => [letterKind(collection.name), collection]))
  for (;;) {
    const request = { worker: WORKER, leaseMs: LEASE_MS, limit: PAGE, rooms: [{ kinds }], isIdle: true }
    const { tasks, now } = await store.claim(request)
    if (tasks.length === 0) break
    const settlements: Settlement[] = []
    for (const task of tasks) {
      const collection = byKind.get(task.kind)
      if (collection !== undefined) settlements.push(await settlementOf(task, source, collection, now))
    }
    await store.settle(settlements)
  }
  await store.leave(WORKER)
}

async function settlementOf(
  task: ClaimedTask,
  source: DocumentSource,
  collection: Collection,
  now: number,
): Promise<Settlement> {
  const { id, token, attempts } = task
  const attempt = { attempt: attempts + 1, startedAt: now, endedAt: now, worker: WORKER }
  const document = await failedDocumentOf(task.payload, source, collection)
  const isReset =
    document !== undefined &&
    (await source.change(collection.shape, [{ document, to: resetValues(collection) }])).length > 0
  const outcome = isReset
    ? ({ type: 'succeeded' } as const)
    : ({ type: 'skipped', reason: 'The document is no longer failed.' } as const)
  return { id, token, outcome, attempt }
}

/** Hands dead letters whose document is no longer failed to the loop above, which discards them. */
async function redriveStale(store: Store, source: DocumentSource, collection: Collection): Promise<void> {
  let after: string | undefined
  do {
    const filter = { kind: letterKind(collection.name), status: 'dead' } as const
    const page = await store.list(filter, { limit: PAGE, after })
    const stale: string[] = []
    for (const { id, payload } of page.items) {
      if ((await failedDocumentOf(payload, source, collection)) === undefined) stale.push(id)
    }
    if (stale.length > 0) await store.redrive(stale, { who: WORKER, why: 'The document is no longer failed.' })
    after = page.next
  } while (after !== undefined)
}

/** The document of a letter, if it is failed since the attempt that the letter tells of. */
async function failedDocumentOf(
  payload: string,
  source: DocumentSource,
  { shape }: Collection,
): Promise<DocumentRecord | undefined> {
  const { id, lastAttemptAt } = JSON.parse(payload) as Reference
  const document = await source.find(shape, id)
  const isSame = document?.status === shape.statuses.failed && (document.lastAttemptAt ?? null) === lastAttemptAt
  return isSame ? document : undefined
}
