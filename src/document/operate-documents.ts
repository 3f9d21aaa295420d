import type { Bus } from '../bus/index.js'
import { FinalError, OptionError } from '../policy/index.js'
import { type Clock, sleep, systemClock } from '../time/index.js'
import type { Collection } from './collection.js'
import { dispatched, eventOf, MAX_DISPATCHES, undispatched } from './dispatch.js'
import { DocumentBusyError, NoDocumentError } from './errors.js'
import { type Judgement, judgeDocument } from './judge-document.js'
import { resetValues } from './reset.js'
import type { Cut, DocumentRecord, DocumentSource } from './source.js'

/** Which failed documents an operator means. */
export interface FailedFilter {
  /** Only documents whose last error contains this text. */
  readonly error?: string
  /** The maximum number of documents, oldest attempt first. */
  readonly limit?: number
}

/** How a bulk act proceeds. */
export interface PaceOptions {
  /** The maximum number of documents per second. Default: no limit. */
  readonly perSecond?: number
  readonly signal?: AbortSignal
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock
}

/** Why a document is where it is, and what the next sweep does with it. */
export interface DocumentExplanation {
  readonly state:
    | 'never_attempted'
    | 'under_way'
    | 'scheduled'
    | 'in_backoff'
    | 'due'
    | 'exhausted'
    | 'unstarted'
    | 'unreadable'
    | 'failed'
    | 'closed'
  /** When a sweep may requeue it; `undefined` if at once, or never. */
  readonly nextAt: number | undefined
  readonly maxAttempts: number
}

const PAGE = 500

/** The time before which an attempt of this collection is too old to be under way. */
export async function cutOf(source: DocumentSource, { stuckAfterMs }: Collection): Promise<Cut> {
  const now = await source.now()
  return { now, stuckBefore: now - stuckAfterMs }
}

/** A document that must be there. */
export async function findDocument(source: DocumentSource, { shape, name }: Collection, id: string) {
  const document = await source.find(shape, id)
  if (document === undefined) throw new NoDocumentError(name, id)
  return document
}

/** Explains the state of a document at a moment. */
export function explainDocument(collection: Collection, document: DocumentRecord, cut: Cut): DocumentExplanation {
  const { statuses } = collection.shape
  const { status, attemptCount, lastAttemptAt, createdAt, retryAt } = document
  const maxAttempts = collection.policy.attempts
  const at = (state: DocumentExplanation['state'], nextAt?: number) => ({ state, nextAt, maxAttempts })
  if (status === statuses.failed) return at('failed')
  if (status !== statuses.pending && status !== statuses.processing) return at('closed')
  if (document.problem !== undefined) return at('unreadable')
  if (retryAt !== undefined && retryAt > cut.now)
    return at(status === statuses.processing ? 'under_way' : 'scheduled', retryAt)
  const since = retryAt === undefined ? (lastAttemptAt ?? createdAt) : undefined
  if (since !== undefined && since >= cut.stuckBefore)
    return at(attemptCount === 0 ? 'never_attempted' : 'under_way', since + collection.stuckAfterMs)
  const judgement = judgeDocument(collection, document, cut.now)
  return at(STATES[judgement.action](document), judgement.action === 'wait' ? judgement.until : undefined)
}

/** The act of a sweep on a stuck document. */
const STATES: Readonly<Record<Judgement['action'], (document: DocumentRecord) => DocumentExplanation['state']>> = {
  give_up: () => 'exhausted',
  wait: () => 'in_backoff',
  dispatch: ({ dispatches }) => (dispatches >= MAX_DISPATCHES ? 'unstarted' : 'due'),
}

/** Throws an `OptionError` if documents are selected by their error, but their collection has no field for it. */
export function checkError({ name, shape }: Collection, error: string | undefined): void {
  if (error === undefined || shape.fields.lastError !== undefined) return
  const advice = `Name the field in 'fields.lastError', or take all documents.`
  throw new OptionError('error', `The collection '${name}' has no field for the last error. ${advice}`)
}

/** Pages over the failed documents that match. */
export async function* failedDocuments(
  source: DocumentSource,
  collection: Collection,
  { error, limit = Infinity }: FailedFilter = {},
): AsyncIterable<readonly DocumentRecord[]> {
  checkError(collection, error)
  const { shape } = collection
  let left = limit
  for await (const page of source.walk(shape, { type: 'failed' }, { pageSize: PAGE })) {
    const matching = page
      .filter(({ lastError = '' }) => error === undefined || lastError.includes(error))
      .slice(0, left)
    left -= matching.length
    if (matching.length > 0) yield matching
    if (left <= 0) return
  }
}

/** Gives a document all its attempts again. Returns false if somebody changed it meanwhile: then nothing was written. */
export async function resetDocument(
  source: DocumentSource,
  collection: Collection,
  document: DocumentRecord,
): Promise<boolean> {
  return (await source.change(collection.shape, [{ document, to: resetValues(collection) }])).length > 0
}

/** Deletes documents; with `into`, after a copy into another collection. Returns how many. */
export function purgeDocuments(
  source: DocumentSource,
  { shape }: Collection,
  pages: AsyncIterable<readonly DocumentRecord[]>,
  { into, ...pace }: PaceOptions & { readonly into?: string } = {},
): Promise<number> {
  return paced(pages, pace, async documents => {
    if (into !== undefined) await source.copy(shape, documents, into)
    return (await source.remove(shape, documents)).length
  })
}

/**
 * Requeues one document now, whatever its backoff says, or at a time. It counts like any requeue, which spends an attempt
 * although the publish fails, unless the service counts as it begins.
 */
export async function requeueDocument(
  source: DocumentSource,
  bus: Bus,
  collection: Collection,
  id: string,
  { at }: { readonly at?: number } = {},
): Promise<DocumentRecord> {
  const { shape, name, countsAtBegin } = collection
  const document = await findDocument(source, collection, id)
  if (document.problem !== undefined)
    throw new FinalError(`Document '${id}' of '${name}' cannot be requeued: ${document.problem}.`)
  if (document.status !== shape.statuses.pending && document.status !== shape.statuses.processing)
    throw new FinalError(`Document '${id}' of '${name}' is '${document.status}'. Reset it first.`)
  const now = await source.now()
  if (at !== undefined) {
    if (!countsAtBegin)
      throw new FinalError(`The collection '${name}' cannot keep a time: name the fields 'generation' and 'retryAt'.`)
    if (judgeDocument(collection, document, now).action === 'give_up')
      throw new FinalError(
        `Document '${id}' of '${name}' has used up its ${collection.policy.attempts} attempts: a sweep would mark it as failed. Requeue it now, without a time.`,
      )
    return only(name, id, await source.change(shape, [{ document, to: { retryAt: at } }]))
  }
  const to = dispatched(collection, document, now)
  const message = eventOf(collection, { ...document, ...to }, now)
  const sent = only(name, id, await source.change(shape, [{ document, to }]))
  try {
    await bus.publish(message)
  } catch (error) {
    const to = undispatched(collection, document, error, now)
    if (to !== undefined) await source.change(shape, [{ document: sent, to }])
    throw error
  }
  return sent
}

function only(collection: string, id: string, [document]: readonly DocumentRecord[]): DocumentRecord {
  if (document === undefined) throw new DocumentBusyError(collection, id)
  return document
}

/** Works through pages, in parts of at most a second's worth. */
async function paced(
  pages: AsyncIterable<readonly DocumentRecord[]>,
  { perSecond = Infinity, signal, clock = systemClock }: PaceOptions,
  work: (documents: readonly DocumentRecord[]) => Promise<number>,
): Promise<number> {
  const size = Math.max(1, Math.min(PAGE, Math.floor(perSecond)))
  let done = 0
  for await (const page of pages) {
    for (let from = 0; from < page.length && !signal?.aborted; from += size) {
      const part = page.slice(from, from + size)
      done += await work(part)
      if (perSecond !== Infinity) await sleep((part.length / perSecond) * 1000, clock, signal).catch(() => {})
    }
    if (signal?.aborted) break
  }
  return done
}
