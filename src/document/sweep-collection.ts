import type { Collection } from './collection.js'
import { MAX_DISPATCHES } from './dispatch.js'
import type { GivenUp } from './given-up.js'
import { judgeDocument } from './judge-document.js'
import { markFailed } from './mark-failed.js'
import { refusalsIn } from './refusals.js'
import { requeuePage } from './requeue-page.js'
import type { Cut, DocumentRecord } from './source.js'
import { stuckPages } from './stuck-documents.js'
import type { Counts, SweepContext } from './sweep-context.js'

/**
 * Sweeps one collection: marks what is exhausted, leaves what is in backoff, and requeues the rest, page by page. A page is
 * updated, then published, and every publish is confirmed before the next page: so a broker that is down stops the sweep at
 * its first page, and costs no document of a later page an attempt. A failure ends the sweep, and is reported with the counts so far.
 */
export async function sweepCollection(collection: Collection, context: SweepContext): Promise<Counts> {
  const counts: Counts = { ...NOTHING, collection: collection.name }
  try {
    const now = await context.source.now()
    const cut = { now, stuckBefore: now - collection.stuckAfterMs }
    const { stuck, failed, oldestAt } = await context.source.survey(collection.shape, cut)
    counts.stuck = stuck
    counts.failed = failed
    if (oldestAt !== undefined) counts.oldestAgeMs = now - oldestAt
    if (stuck > 0) {
      counts.postponed = await postponement(collection, context)
      if (counts.postponed === undefined) await sweepStuck(collection, cut, counts, context)
    }
    if (!context.isDryRun) await archive(collection, now, counts, context)
  } catch (error) {
    counts.failure ??= reasonOf(error)
  }
  counts.failed += counts.exhausted - counts.archived
  return counts
}

const NOTHING = {
  stuck: 0,
  failed: 0,
  requeued: 0,
  skipped: 0,
  exhausted: 0,
  missed: 0,
  unstarted: 0,
  archived: 0,
  publishErrors: 0,
  documentErrors: 0,
}

const reasonOf = (error: unknown) => error ?? new Error('The sweep of the collection failed.')

/** Why the collection has to wait: its services could not work on the documents now. */
async function postponement({ lane, isHealthy }: Collection, { store }: SweepContext): Promise<Counts['postponed']> {
  if (lane !== undefined && store !== undefined) {
    const lanes = await store.lanes(lane)
    if (lanes.some(({ isPaused, heldUntil }) => isPaused || heldUntil !== undefined)) return 'lane'
  }
  return (await isHealthy()) ? undefined : 'unhealthy'
}

async function sweepStuck(collection: Collection, cut: Cut, counts: Counts, context: SweepContext): Promise<void> {
  const { source, isDryRun, signal } = context
  let left = await allowance(collection, counts, context)
  const pageSize = Math.max(1, Math.min(context.pageSize, left))
  // A dry run requeues nothing, so documents that go ahead by priority would be counted twice.
  const shape = isDryRun ? { ...collection.shape, priority: undefined } : collection.shape
  // Documents that come in during the sweep wait for the next one: they could come in faster than they are requeued.
  let unseen = counts.stuck
  for await (const { documents, isAhead } of stuckPages(source, shape, cut, pageSize)) {
    // Documents that go ahead, and are not due, come again by age, and are counted then.
    const { due, givenUp } = sorted(collection, documents, cut.now, isAhead ? { ...counts } : counts)
    const chosen = due.slice(0, left)
    left -= chosen.length
    if (!isAhead) unseen -= documents.length
    const isPublished = await act(collection, chosen, isAhead ? [] : givenUp, cut.now, counts, context)
    if (!isPublished || left <= 0 || unseen <= 0 || signal?.aborted) return
  }
}

/** Requeues and marks documents. Returns false if nothing could be published. */
async function act(
  collection: Collection,
  due: readonly DocumentRecord[],
  givenUp: readonly GivenUp[],
  now: number,
  counts: Counts,
  context: SweepContext,
): Promise<boolean> {
  if (context.isDryRun) {
    counts.requeued += due.length
    counts.exhausted += givenUp.length
    return true
  }
  const isPublished = await requeuePage(collection, due, counts, context)
  await mark(collection, givenUp, now, counts, context)
  return isPublished
}

/** How many documents the sweep may send: all of them, unless too much of the collection is stuck. */
async function allowance({ shape, blastRadius }: Collection, counts: Counts, context: SweepContext): Promise<number> {
  // Counting a whole collection may be slow, so it is asked for only if that many are stuck.
  if (counts.stuck < blastRadius.atLeast) return Infinity
  const total = await context.source.total(shape)
  if (counts.stuck <= blastRadius.share * total) return Infinity
  const isHeldBack = !blastRadius.isWarning && !context.isConfirmed
  counts.tooMany = { total, isHeldBack }
  return isHeldBack ? blastRadius.first : Infinity
}

/** Asks the kernel about each document of a page. */
function sorted(collection: Collection, page: readonly DocumentRecord[], now: number, counts: Counts) {
  const due: DocumentRecord[] = []
  const givenUp: GivenUp[] = []
  for (const document of page) {
    if (document.problem !== undefined) {
      counts.documentErrors++
      counts.documentError ??= new Error(`Document '${document.id}' cannot be read: ${document.problem}.`)
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

/** Marks documents as failed. If that fails, because the store is down say, the others are requeued all the same. */
async function mark(
  collection: Collection,
  givenUp: readonly GivenUp[],
  now: number,
  counts: Counts,
  context: SweepContext,
): Promise<void> {
  if (givenUp.length === 0 || counts.failure !== undefined) return
  try {
    const refusals = refusalsIn(counts)
    const marked = await markFailed(collection, givenUp, now, { ...context, onRefused: refusals.add })
    counts.exhausted += marked.length
    counts.missed += givenUp.length - marked.length - refusals.count
  } catch (error) {
    counts.failure = reasonOf(error)
  }
}

/** Moves failed documents into the archive once they are old enough: a copy, then a conditional delete. */
async function archive(
  { shape, archive: home }: Collection,
  now: number,
  counts: Counts,
  { source, pageSize, signal }: SweepContext,
): Promise<void> {
  if (home === undefined) return
  for await (const page of source.walk(shape, { type: 'failed' }, { pageSize })) {
    const old = page.filter(({ lastAttemptAt = -Infinity }) => lastAttemptAt < now - home.afterMs)
    if (old.length === 0 || signal?.aborted) return
    await source.copy(shape, old, home.into)
    counts.archived += (await source.remove(shape, old)).length
  }
}
