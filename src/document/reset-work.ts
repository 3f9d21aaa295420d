import type { OutsideBatch, OutsideTarget, OutsideWork } from '../engine/internal.js'
import type { DocumentSet, OperationRecord } from '../store/internal.js'
import type { Collection } from './collection.js'
import { checkError, cutOf, type FailedFilter } from './operate-documents.js'
import { resetValues } from './reset.js'
import type { DocumentRecord, DocumentSource, OnRefused } from './source.js'

/** How many documents are read, and updated, at a time. */
const PAGE = 500

/** The reason on record for documents that somebody else changed in the meantime. */
const CHANGED = 'already_back'
/** The reason on record for documents that the database refused to update. */
const REFUSED = 'database_refused'

/** The failed documents of a collection as the set of an operation. */
export async function failedSet(
  source: DocumentSource,
  collection: Collection,
  { error }: Pick<FailedFilter, 'error'> = {},
): Promise<DocumentSet> {
  checkError(collection, error)
  const cut = await cutOf(source, collection)
  const { failed: count } = await source.survey(collection.shape, cut)
  const set = { collection: collection.name, source: source.address, until: cut.now, count }
  return error === undefined ? set : { ...set, error }
}

/** Carries out resets of documents in these collections. */
export function resetTarget(
  source: DocumentSource,
  collections: readonly Collection[],
  onRefused: OnRefused = () => {},
): OutsideTarget {
  return ({ set }) => {
    if (!('collection' in set) || set.source !== source.address) return undefined
    const collection = collections.find(({ name }) => name === set.collection)
    return collection && new ResetWork(source, collection, set, onRefused)
  }
}

/**
 * Gives the failed documents of a collection all their attempts again, oldest attempt first. Each is a conditional update, and
 * leaves the set with it: so it does not matter who else is at it, nor how often.
 */
class ResetWork implements OutsideWork {
  readonly #source: DocumentSource
  readonly #collection: Collection
  readonly #set: DocumentSet
  readonly #onRefused: OnRefused
  readonly #refused: Record<string, number> = {}
  /** Documents of the set that were read and not yet acted on. */
  #read: readonly DocumentRecord[] = []
  #unmatched = 0
  #walk: AsyncIterator<readonly DocumentRecord[]> | undefined

  constructor(source: DocumentSource, collection: Collection, set: DocumentSet, onRefused: OnRefused) {
    this.#source = source
    this.#collection = collection
    this.#set = set
    this.#onRefused = onRefused
  }

  async act(_: OperationRecord, limit: number): Promise<OutsideBatch> {
    const isOver = this.#read.length === 0 && (await this.#readPage())
    const documents = this.#read.slice(0, limit)
    this.#read = this.#read.slice(limit)
    const moved = documents.length === 0 ? 0 : await this.#reset(documents)
    return { moved, refused: { ...this.#refused }, unmatched: this.#unmatched, isRead: isOver }
  }

  async close(): Promise<void> {
    await this.#walk?.return?.()
  }

  /** Reads a page, which may have no document of the set. Returns whether there is none any more. */
  async #readPage(): Promise<boolean> {
    const { shape } = this.#collection
    this.#walk ??= this.#source.walk(shape, { type: 'failed' }, { pageSize: PAGE })[Symbol.asyncIterator]()
    const { done, value: page } = await this.#walk.next()
    if (done) return true
    const { error, until } = this.#set
    this.#read = page.filter(({ lastError = '', lastAttemptAt = 0 }) => {
      return (error === undefined || lastError.includes(error)) && lastAttemptAt <= until
    })
    this.#unmatched += page.length - this.#read.length
    return false
  }

  async #reset(documents: readonly DocumentRecord[]): Promise<number> {
    const to = resetValues(this.#collection)
    const changes = documents.map(document => ({ document, to }))
    let refused = 0
    const changed = await this.#source.change(this.#collection.shape, changes, (document, error) => {
      refused++
      this.#onRefused(document, error)
    })
    this.#leaveAlone(REFUSED, refused)
    this.#leaveAlone(CHANGED, documents.length - changed.length - refused)
    return changed.length
  }

  #leaveAlone(reason: string, count: number): void {
    if (count > 0) this.#refused[reason] = (this.#refused[reason] ?? 0) + count
  }
}
