import type { Bus } from '../bus/index.js'
import type { Store } from '../store/index.js'
import type { CollectionReport, Sink } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import type { Collection } from './collection.js'
import { dispatched, eventOf, MAX_DISPATCHES, undispatched } from './dispatch.js'
import type { GivenUp } from './given-up.js'
import { documentWorkId, judgeDocument } from './judge-document.js'
import { markFailed } from './mark-failed.js'
import type { Cut, DocumentRecord, DocumentSource } from './source.js'
import { stuckDocuments } from './stuck-documents.js'

/** The surroundings of a sweep. */
export interface SweepContext {
  readonly source: DocumentSource
  readonly bus: Bus
  readonly store?: Store | undefined
  readonly sink?: Sink | undefined
  readonly pageSize: number
  readonly isDryRun: boolean
  /** Whether to send all documents, however many are stuck. */
  readonly isConfirmed: boolean
}

type Counts = { -readonly [K in keyof CollectionReport]: CollectionReport[K] }

/**
 * Sweeps one collection: marks what is exhausted, leaves what is in backoff, and requeues the rest, page by page. A page is
 * updated, then published, and every publish is confirmed before the next page: so a broker that is down stops the sweep at
 * its first page, whose documents get their attempt back.
 */
export async function sweepCollection(collection: Collection, context: SweepContext): Promise<CollectionReport> {
  const { source } = context
  const { name, shape } = collection
  const now = await source.now()
  const cut = { now, stuckBefore: now - collection.stuckAfterMs }
  const { stuck, failed, oldestAt } = await source.survey(shape, cut)
  const counts: Counts = { ...NOTHING, collection: name, stuck, failed, oldestAt }
  if (stuck > 0) {
    counts.postponed = await postponement(collection, context, now)
    if (counts.postponed === undefined) await requeueAll(collection, cut, counts, context)
  }
  if (!context.isDryRun) counts.archived = await archive(collection, source, now, context.pageSize)
  counts.failed += counts.exhausted - counts.archived
  return counts
}

const NOTHING = {
  requeued: 0,
  skipped: 0,
  exhausted: 0,
  missed: 0,
  unstarted: 0,
  archived: 0,
  publishErrors: 0,
  documentErrors: 0,
}

/** A collection whose sweep failed. */
export function failedReport(collection: Collection, failure: unknown): CollectionReport {
  return { ...NOTHING, collection: collection.name, stuck: 0, failed: 0, failure }
}

/** Why the collection has to wait: its services could not work on the documents now. */
async function postponement(
  { lane, isHealthy }: Collection,
  { store }: SweepContext,
  now: number,
): Promise<CollectionReport['postponed']> {
  if (lane !== undefined && store !== undefined) {
    const lanes = await store.lanes(lane)
    if (lanes.some(({ isPaused, heldUntil = 0 }) => isPaused || heldUntil > now)) return 'lane'
  }
  return (await isHealthy()) ? undefined : 'unhealthy'
}

async function requeueAll(collection: Collection, cut: Cut, counts: Counts, context: SweepContext): Promise<void> {
  const { shape, blastRadius } = collection
  // Counting a whole collection may be slow, so it is asked for only if that many are stuck.
  const total = counts.stuck >= blastRadius.atLeast ? await context.source.total(shape) : Infinity
  const isTooMany = counts.stuck > blastRadius.share * total
  const isHeldBack = isTooMany && !blastRadius.isWarning && !context.isConfirmed
  if (isTooMany) counts.tooMany = { total, isHeldBack }
  let left = isHeldBack ? blastRadius.first : Infinity
  for await (const page of stuckDocuments(context.source, shape, cut, context.pageSize, left)) {
    const { due, givenUp } = sorted(collection, page, cut.now, counts)
    const chosen = due.slice(0, left)
    left -= chosen.length
    if (context.isDryRun) {
      counts.exhausted += givenUp.length
      counts.requeued += chosen.length
    } else {
      const isPublished = await requeue(collection, chosen, counts, context)
      const marked = await markFailed(collection, givenUp, cut.now, context)
      counts.exhausted += marked.length
      counts.missed += givenUp.length - marked.length
      if (!isPublished) return
    }
    if (left <= 0) return
  }
}

/** Asks the kernel about each document of a page. */
function sorted(collection: Collection, page: readonly DocumentRecord[], now: number, counts: Counts) {
  const due: DocumentRecord[] = []
  const givenUp: GivenUp[] = []
  for (const document of page) {
    if (document.problem !== undefined) {
      counts.documentErrors++
      continue
    }
    const judgement = judgeDocument(collection, document, now)
    if (judgement.action === 'give_up') givenUp.push({ document, reason: judgement.reason })
    else if (judgement.action === 'wait') counts.skipped++
    else if (document.dispatches >= MAX_DISPATCHES) counts.unstarted++
    else due.push(document)
  }
  return { due, givenUp }
}

/** Updates and publishes a page of documents. Returns false if nothing could be published. */
async function requeue(
  collection: Collection,
  due: readonly DocumentRecord[],
  counts: Counts,
  { source, bus, sink }: SweepContext,
): Promise<boolean> {
  if (due.length === 0) return true
  const now = await source.now()
  const changes = due.map(document => ({ document, to: dispatched(collection, document, now) }))
  const updated = await source.change(collection.shape, changes)
  counts.missed += due.length - updated.length
  const publishes = updated.map(document => publish(bus, collection, document, now))
  const failures = (await Promise.all(publishes)).filter(({ failure }) => failure !== undefined)
  counts.publishErrors += failures.length
  counts.requeued += updated.length - failures.length
  const unpublished = new Set(failures.map(({ document }) => document))
  for (const document of updated) {
    if (sink !== undefined && !unpublished.has(document)) emit(sink, sweptEvent(collection, document, now))
  }
  // An event that was sent, and not confirmed, may be in the queue: its attempt stays counted.
  const unsent = failures.filter(({ failure }) => !isUnconfirmed(failure)).map(({ document }) => document)
  const before = new Map(due.map(document => [document.id, document]))
  const back = unsent.map(document => ({
    document,
    to: undispatched(collection, before.get(document.id) ?? document, now),
  }))
  if (back.length > 0) await source.change(collection.shape, back)
  return updated.length === 0 || failures.length < updated.length
}

async function publish(bus: Bus, collection: Collection, document: DocumentRecord, now: number) {
  try {
    await bus.publish(eventOf(collection, document, now))
    return { document, failure: undefined }
  } catch (error) {
    return { document, failure: error ?? new Error('The event could not be published.') }
  }
}

function isUnconfirmed(failure: unknown): boolean {
  return failure instanceof Error && 'code' in failure && failure.code === 'publish_unconfirmed'
}

function sweptEvent(collection: Collection, { id, attemptCount }: DocumentRecord, at: number) {
  const { name, policy, countsAtBegin } = collection
  const attempt = countsAtBegin ? attemptCount + 1 : attemptCount
  const work = { kind: 'document', id: documentWorkId(collection, id), name } as const
  return { type: 'swept', work, at, attempt, maxAttempts: policy.attempts } as const
}

/** Moves failed documents into the archive once they are old enough: a copy, then a conditional delete. */
async function archive({ shape, archive: home }: Collection, source: DocumentSource, now: number, pageSize: number) {
  let archived = 0
  if (home === undefined) return archived
  for await (const page of source.walk(shape, { type: 'failed' }, { pageSize })) {
    const old = page.filter(({ lastAttemptAt = -Infinity }) => lastAttemptAt < now - home.afterMs)
    if (old.length === 0) break
    await source.copy(shape, old, home.into)
    archived += (await source.remove(shape, old)).length
  }
  return archived
}
