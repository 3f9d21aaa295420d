import type { FieldNames, Shape } from './collection.js'

/**
 * Where documents live: tables or collections of the user's own, which Redrive reads and whose tracking fields it updates.
 *
 * The contract fits a database without joins and without transactions over several documents. Every write is a conditional
 * update of one document: it takes effect if the tracking fields are still as they were read. So any number of sweepers and
 * services may work on the same documents, and one of them wins.
 *
 * A source decides nothing. It finds documents that are open and that nobody has touched lately; the kernel says which of
 * them are due, which have to wait, and which are exhausted.
 */
export interface DocumentSource {
  /**
   * Where the documents are, without credentials, such as `postgres://host/database`. A reset on record names it, so that
   * nobody continues it on another database.
   */
  readonly address: string
  /** The database's clock, in milliseconds since the epoch. */
  now(): Promise<number>
  /** Counts the stuck and the failed documents of a collection. Throws `NoCollectionError` if the collection is missing. */
  survey(shape: Shape, cut: Cut): Promise<Survey>
  /** The number of documents of a collection. May be an estimate. */
  total(shape: Shape): Promise<number>
  /**
   * Pages over the documents of a selection, each document once. Stuck documents come with the oldest attempt first, and
   * those without one last, since new ones may keep coming: with the oldest first, where the collection names `createdAt`.
   * Failed documents without an attempt come first. `priority` puts the
   * highest value of the priority field first instead, and leaves out documents without one. A walk ends even if documents
   * change meanwhile: what has been requeued has left the selection.
   */
  walk(shape: Shape, selection: Selection, options: DocumentWalkOptions): AsyncIterable<readonly DocumentRecord[]>
  /** A document by its id; `undefined` if there is none. */
  find(shape: Shape, id: string): Promise<DocumentRecord | undefined>
  /**
   * Updates each document whose tracking fields are still as they were read. Returns the updated ones, as they are now. A
   * document that the database refuses to update, because of a constraint say, is given to `onRefused`, and the others are
   * updated. Without it, a refusal is thrown.
   */
  change(shape: Shape, changes: readonly Change[], onRefused?: OnRefused): Promise<readonly DocumentRecord[]>
  /** Deletes each document whose tracking fields are still as they were read. Returns the deleted ones. */
  remove(shape: Shape, documents: readonly DocumentRecord[]): Promise<readonly DocumentRecord[]>
  /**
   * Copies documents into another collection with the same fields, and replaces earlier copies. A document that has changed
   * since it was read may be left out.
   */
  copy(shape: Shape, documents: readonly DocumentRecord[], into: string): Promise<void>
  /**
   * The ids, of these documents, that occur in a field of another collection. Throws `NoCollectionError` if that is missing:
   * a mistake in its name must not look like documents that are missing.
   */
  present(collection: string, field: string, documents: readonly DocumentRecord[]): Promise<ReadonlySet<string>>
  /** The statements that create the indexes which the walks need. */
  indexes(shape: Shape): Promise<readonly string[]>
  /** Creates those indexes, unless they exist. */
  createIndexes(shape: Shape): Promise<void>
  /** Disconnects, unless the connection was the caller's own. */
  close(): Promise<void>
}

/** The times that separate what is stuck from what may be under way, on the database's clock. Taken once per sweep. */
export interface Cut {
  /** The time on the database's clock. */
  readonly now: number
  /** A last attempt before this is too old to be under way. */
  readonly stuckBefore: number
}

/** The counts of a collection. */
export interface Survey {
  /** How many documents are stuck. */
  readonly stuck: number
  /** How many are marked as failed. */
  readonly failed: number
  /** When the oldest stuck document was created, or last attempted where no creation time is configured. */
  readonly oldestAt: number | undefined
}

/** Which documents to walk over. */
export type Selection =
  /** Open documents that nobody has touched since the cut. */
  | { readonly type: 'stuck'; readonly cut: Cut }
  /** Documents that were marked as failed. */
  | { readonly type: 'failed' }
  /** All documents, by id. */
  | { readonly type: 'all' }

/** Options of a walk. */
export interface DocumentWalkOptions {
  /** How many documents to read at a time. */
  readonly pageSize: number
  /** The oldest first, or by priority. Default `age`. */
  readonly order?: 'age' | 'priority'
}

/** A document with its tracking fields. Times are milliseconds since the epoch; a missing count is 0. */
export interface DocumentRecord {
  /** The id as text, as events and commands name it. */
  readonly id: string
  /** The value of its status field. */
  readonly status: string
  /** How often it was attempted. */
  readonly attemptCount: number
  /** When it was last attempted. */
  readonly lastAttemptAt: number | undefined
  /** When it was created, if the collection names such a field. */
  readonly createdAt: number | undefined
  /** Goes up with each dispatch and each begin. 0 where the collection names no such field. */
  readonly generation: number
  /** No sweep touches the document before this time. */
  readonly retryAt: number | undefined
  /** How often it was dispatched since it last began. */
  readonly dispatches: number
  /** The last error that a service recorded. */
  readonly lastError: string | undefined
  /** The whole document. */
  readonly data: Readonly<Record<string, unknown>>
  /** Why its tracking fields cannot be read, if so. */
  readonly problem: string | undefined
  /** The tracking fields that cannot be read. Their values here are 0, missing or empty. */
  readonly unreadable?: readonly (keyof FieldNames)[]
  /** The tracking fields as the source read them, for its conditional updates. */
  readonly asRead: unknown
}

/** New values for tracking fields. Absent fields stay; fields that the collection does not name are left out. */
export interface NewValues {
  /** The new status. */
  readonly status?: string
  /** How often it was attempted. */
  readonly attemptCount?: number
  /** When it was last attempted; `null` for never. */
  readonly lastAttemptAt?: number | null
  /** The next generation. */
  readonly generation?: number
  /** No sweep before this time; `null` for at once. */
  readonly retryAt?: number | null
  /** Dispatches since it last began. */
  readonly dispatches?: number
  /** The error to record; `null` to clear it. */
  readonly lastError?: string | null
}

/** Receives a document that the database refuses to update, and why. */
export type OnRefused = (document: DocumentRecord, error: unknown) => void

/** A conditional update of one document. */
export interface Change {
  /** The document as it was read. If it has changed since, nothing is written. */
  readonly document: DocumentRecord
  /** The values to write. */
  readonly to: NewValues
}
