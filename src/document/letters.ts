import { randomUUID } from 'node:crypto'
import { DOCUMENT_KIND } from '../engine/internal.js'
import { hashJson } from '../policy/index.js'
import type { NewTask } from '../store/index.js'
import type { ClaimedTask, Settlement, StoreContract } from '../store/internal.js'
import { failureText } from '../telemetry/index.js'
import type { Collection } from './collection.js'
import { NoCollectionError } from './errors.js'
import { failureOf, type GivenUp } from './given-up.js'
import { STUCK } from './judge-document.js'
import { resetValues } from './reset.js'
import type { DocumentRecord, DocumentSource } from './source.js'

/** The payload of a document's dead letter: a reference. The document itself stays in its collection. */
interface Reference {
  readonly collection: string
  readonly id: string
  readonly lastAttemptAt: number | null
  readonly attemptCount: number
}

/** Letters are looked at in pages of this size. */
const PAGE = 500
const LEASE_MS = 60_000
const WORKER = 'redrive-sweeper'

/** The kind of the dead letters of a collection's documents. */
function letterKind(collection: string): string {
  return `${DOCUMENT_KIND}${collection}`
}

/** Records a dead letter for each document. Repeating it changes nothing: its id comes from the document's last attempt. */
export async function recordLetters(
  store: StoreContract,
  collection: Collection,
  givenUp: readonly GivenUp[],
  now: number,
): Promise<void> {
  await store.enqueue(givenUp.map(entry => letterOf(collection, entry, now)))
}

function letterOf({ name }: Collection, entry: GivenUp, now: number): NewTask {
  const { document, reason, verdict = STUCK } = entry
  const { id, lastAttemptAt = null, attemptCount } = document
  const reference: Reference = { collection: name, id, lastAttemptAt, attemptCount }
  return {
    id: `document-${hashJson(reference)}`,
    kind: letterKind(name),
    payload: JSON.stringify(reference),
    tried: {
      outcome: { type: 'dead', reason },
      attempt: {
        attempt: Math.max(attemptCount, 1),
        startedAt: lastAttemptAt ?? now,
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
 * has been reset, deleted, completed or attempted again is discarded.
 */
export async function reconcileLetters(
  store: StoreContract,
  source: DocumentSource,
  collections: readonly Collection[],
): Promise<void> {
  for (const collection of collections) {
    try {
      await discardStale(store, source, collection)
      await settleRedriven(store, source, collection)
    } catch (error) {
      // The sweep of the collection reports that it is missing. Its letters wait until it is back.
      if (!(error instanceof NoCollectionError)) throw error
    }
  }
}

/** Resets the documents of letters that were redriven. Each call is a worker of its own: sweepers may do so at once. */
async function settleRedriven(store: StoreContract, source: DocumentSource, collection: Collection): Promise<void> {
  const worker = `${WORKER}-${randomUUID()}`
  const rooms = [{ kinds: [letterKind(collection.name)] }]
  try {
    for (;;) {
      const { tasks, now } = await store.claim({ worker, leaseMs: LEASE_MS, limit: PAGE, rooms, isIdle: true })
      if (tasks.length === 0) return
      const settlements: Settlement[] = []
      for (const task of tasks) settlements.push(await settlementOf(task, source, collection, now))
      await store.settle(settlements)
    }
  } finally {
    await store.leave(worker)
  }
}

async function settlementOf(
  task: ClaimedTask,
  source: DocumentSource,
  collection: Collection,
  now: number,
): Promise<Settlement> {
  const { id, token, attempts } = task
  const attempt = { attempt: attempts + 1, startedAt: now, endedAt: now, worker: WORKER }
  const document = await documentOf(task.payload, source, collection)
  const isReset =
    document !== undefined &&
    (await source.change(collection.shape, [{ document, to: resetValues(collection) }])).length > 0
  const outcome = isReset
    ? ({ type: 'succeeded' } as const)
    : ({ type: 'skipped', reason: 'The document is no longer failed.' } as const)
  return { id, token, outcome, attempt }
}

/** Discards dead letters whose document is no longer failed. */
async function discardStale(store: StoreContract, source: DocumentSource, collection: Collection): Promise<void> {
  let after: string | undefined
  do {
    const filter = { kind: letterKind(collection.name), status: 'dead' } as const
    const page = await store.list(filter, { limit: PAGE, ...(after !== undefined && { after }) })
    const documents = await Promise.all(page.items.map(({ payload }) => documentOf(payload, source, collection)))
    const stale = page.items.filter((_, index) => documents[index] === undefined).map(({ id }) => id)
    if (stale.length > 0) await store.discard(stale, { who: WORKER, why: 'The document is no longer failed.' })
    after = page.next
  } while (after !== undefined)
}

/**
 * The document of a letter, if its latest attempt is the one that the letter tells of, and nobody completed it. It may still
 * be open: the letter comes first, and its document is marked by this sweep or by another one.
 */
async function documentOf(
  payload: string,
  source: DocumentSource,
  { shape }: Collection,
): Promise<DocumentRecord | undefined> {
  const { id, lastAttemptAt, attemptCount } = JSON.parse(payload) as Reference
  const document = await source.find(shape, id)
  if (document === undefined || document.status === shape.statuses.done) return undefined
  const isSame = (document.lastAttemptAt ?? null) === lastAttemptAt && document.attemptCount === attemptCount
  return isSame ? document : undefined
}
