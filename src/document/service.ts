import { classify, FinalError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Store } from '../store/index.js'
import { contractOf, type StoreContract } from '../store/internal.js'
import { failureText, type Sink } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import { sleep, systemClock } from '../time/index.js'
import { type Collection, type CollectionOptions, collectionOf, type SharedSettings } from './collection.js'
import { STAMP } from './dispatch.js'
import { DocumentBusyError } from './errors.js'
import { decideDocument, documentWorkId } from './judge-document.js'
import { markFailed } from './mark-failed.js'
import type { DocumentRecord, DocumentSource, NewValues } from './source.js'

/** Settings of `documentService`. @inline */
export interface DocumentServiceOptions extends SharedSettings {
  /** Where the documents are. */
  readonly source: DocumentSource
  /** Their collection, as the sweeper has it. */
  readonly collection: CollectionOptions
  /** Records a dead letter for each document that fails for good. */
  readonly store?: Store
  /** Receives the work events. */
  readonly sink?: Sink
}

const SERVICE: KnownOptions<DocumentServiceOptions> = {
  source: 'object',
  collection: 'object',
  policy: '',
  stuckAfter: '',
  store: '',
  sink: 'function',
}

/** The stamp of an event: its headers, as `EventContext` has them. */
export type EventHeaders = Readonly<Record<string, string>>

/** An attempt that has begun. Pass it to `renew`, `complete` and `fail`. */
export interface Begun {
  readonly type: 'begun'
  /** The number of the attempt, from 1. */
  readonly attempt: number
  /** The document as it is now. */
  readonly document: DocumentRecord
}

/**
 * The answer to `begin`. Anything but `begun` means: acknowledge the event, and do nothing. `superseded`: another event for
 * the document was sent since, or has begun. `closed`: the document is done or has failed. `missing`: it was deleted.
 */
export type Beginning = Begun | { readonly type: 'superseded' | 'closed' | 'missing' }

/**
 * A conditional update that did not take effect is tried again with fresh values, this often: it lost a race, or somebody
 * holds the row in a transaction. The waits double, to five seconds over all.
 */
const TRIES = 10
const FIRST_WAIT_MS = 10

/**
 * The helpers of a service that works on the documents of a collection. Call `begin` before the work, and `complete` or
 * `fail` after it. One delivery is one attempt: the consumer has `attempts: 1`.
 *
 * ```ts
 * const archives = documentService({ source, collection })
 * const attempt = await archives.begin(event.data.archive_id, context.headers)
 * if (attempt.type !== 'begun') return
 * ```
 */
export function documentService(options: DocumentServiceOptions): DocumentService {
  return new DocumentService(options)
}

/** Begins, renews and ends attempts at documents. */
export class DocumentService {
  readonly #source: DocumentSource
  readonly #collection: Collection
  readonly #store: StoreContract | undefined
  readonly #sink: Sink | undefined

  constructor(options: DocumentServiceOptions) {
    checkOptions('documentService()', options, SERVICE)
    this.#source = options.source
    this.#collection = collectionOf(options.collection, options)
    this.#store = options.store === undefined ? undefined : contractOf(options.store)
    this.#sink = options.sink
  }

  /**
   * Begins an attempt at a document. Where the requeue counts, an event that a sweep stamped is counted already, and any
   * other is counted here. Where attempts count at the beginning, the event must be the latest one for its document.
   */
  async begin(id: string, headers: EventHeaders = {}): Promise<Beginning> {
    const { shape, countsAtBegin } = this.#collection
    return this.#persist(id, async () => {
      const document = await this.#source.find(shape, id)
      if (document === undefined) return { type: 'missing' }
      if (!this.#isOpen(document)) return { type: 'closed' }
      const now = await this.#source.now()
      if (countsAtBegin && !isLatest(document, headers, now)) return this.#superseded(id, now)
      const begun = await this.#change(document, this.#beginning(document, headers, now))
      return begun && { type: 'begun', attempt: begun.attemptCount, document: begun }
    })
  }

  #superseded(id: string, at: number): Beginning {
    const { name } = this.#collection
    const work = { kind: 'document', id: documentWorkId(this.#collection, id), name } as const
    if (this.#sink !== undefined) emit(this.#sink, { type: 'superseded', work, at })
    return { type: 'superseded' }
  }

  /**
   * Keeps a long attempt from being swept, for another `startWithin`. Returns false if the attempt is no longer the latest.
   * Only collections that count at the beginning have leases.
   */
  async renew(attempt: Begun): Promise<boolean> {
    if (!this.#collection.countsAtBegin)
      throw new FinalError(`The collection '${this.#collection.name}' has no leases: name 'generation' and 'retryAt'.`)
    return this.#end(attempt, async now => ({ retryAt: now + this.#collection.startWithinMs }))
  }

  /** Marks the document as done. Returns false if the attempt is no longer the latest: then nothing changed. */
  complete(attempt: Begun): Promise<boolean> {
    const { done } = this.#collection.shape.statuses
    return this.#end(attempt, async () => ({ status: done, retryAt: null, lastError: null }))
  }

  /**
   * Records a failed attempt. The kernel decides what follows: the document waits for its next attempt, or has failed for
   * good. Returns false if the attempt is no longer the latest: then nothing changed.
   */
  async fail(attempt: Begun, failure: unknown): Promise<boolean> {
    const collection = this.#collection
    const { shape, policy, countsAtBegin } = collection
    const now = await this.#source.now()
    const verdict = classify(failure, policy, now)
    const decision = decideDocument(collection, attempt.document, verdict, now)
    // Where the requeue counts, the sweep marks documents that have used up their attempts, and counts them.
    const isOver = decision.action === 'give_up' && (countsAtBegin || decision.reason !== 'attempts_exhausted')
    if (isOver) {
      const options = { source: this.#source, store: this.#store, sink: this.#sink }
      const { reason } = decision
      return this.#persist(attempt.document.id, async () => {
        const document = await this.#current(attempt)
        if (document === undefined) return false
        const marked = await markFailed(collection, [{ document, reason, verdict, failure }], now, options)
        return marked.length > 0 || undefined
      })
    }
    const { pending } = shape.statuses
    const retryAt = decision.action === 'give_up' ? null : decision.at
    return this.#end(attempt, async () => ({ status: pending, retryAt, lastError: failureText(failure) }))
  }

  /** Hands an attempt back uncounted, as on a shutdown: the document is due at once. */
  release(attempt: Begun): Promise<boolean> {
    const { pending } = this.#collection.shape.statuses
    const attemptCount = Math.max(attempt.attempt - 1, 0)
    return this.#end(attempt, async now => ({ status: pending, attemptCount, retryAt: now }))
  }

  #beginning(document: DocumentRecord, headers: EventHeaders, now: number): NewValues {
    const { processing } = this.#collection.shape.statuses
    const counted = { status: processing, attemptCount: document.attemptCount + 1, lastAttemptAt: now }
    if (this.#collection.countsAtBegin) {
      const { generation } = document
      return { ...counted, generation: generation + 1, retryAt: now + this.#collection.startWithinMs, dispatches: 0 }
    }
    const isCounted = headers[STAMP.attempt] !== undefined
    return isCounted ? { status: processing } : counted
  }

  #isOpen({ status }: DocumentRecord): boolean {
    const { pending, processing } = this.#collection.shape.statuses
    return status === pending || status === processing
  }

  /** The document of an attempt, if it is still that attempt's. */
  async #current({ document: begun }: Begun): Promise<DocumentRecord | undefined> {
    const document = await this.#source.find(this.#collection.shape, begun.id)
    if (document === undefined || !this.#isOpen(document)) return undefined
    return document.generation === begun.generation ? document : undefined
  }

  #end(attempt: Begun, values: (now: number) => Promise<NewValues>): Promise<boolean> {
    return this.#persist(attempt.document.id, async () => {
      const document = await this.#current(attempt)
      if (document === undefined) return false
      const changed = await this.#change(document, await values(await this.#source.now()))
      return changed !== undefined || undefined
    })
  }

  /** Calls a function until it has a result. */
  async #persist<T>(id: string, act: () => Promise<T | undefined>): Promise<T> {
    for (let tries = 0; tries < TRIES; tries++) {
      if (tries > 0) await sleep(FIRST_WAIT_MS * 2 ** (tries - 1), systemClock)
      const result = await act()
      if (result !== undefined) return result
    }
    throw new DocumentBusyError(this.#collection.name, id)
  }

  async #change(document: DocumentRecord, to: NewValues): Promise<DocumentRecord | undefined> {
    return (await this.#source.change(this.#collection.shape, [{ document, to }]))[0]
  }
}

/**
 * Whether an event may begin: its stamp is the document's generation, so nobody has replaced it. An event without a stamp is
 * the first one: it may begin unless another is under way.
 */
function isLatest({ generation, retryAt }: DocumentRecord, headers: EventHeaders, now: number): boolean {
  const stamp = headers[STAMP.generation]
  return stamp === undefined ? retryAt === undefined || retryAt <= now : Number(stamp) === generation
}
