import { FinalError, RetryableError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/** Thrown when a source has no such collection. */
export class NoCollectionError extends FinalError {
  static {
    NoCollectionError.prototype.name = 'NoCollectionError'
  }

  constructor(name: string, options?: ErrorOptions) {
    super(`The source has no collection ${quoted(name)}. Check its name, and the database that the source opens.`, {
      ...options,
      code: 'no_collection',
    })
  }
}

/** Thrown when a collection lacks a field that its configuration names. */
export class NoFieldError extends FinalError {
  static {
    NoFieldError.prototype.name = 'NoFieldError'
  }

  constructor(collection: string, fields: readonly string[]) {
    super(
      `The collection ${quoted(collection)} has no ${fields.map(quoted).join(', ')}. Add the missing column, or name the right one in 'fields'.`,
      { code: 'no_field' },
    )
  }
}

/** Thrown when there is no document with that id. */
export class NoDocumentError extends FinalError {
  static {
    NoDocumentError.prototype.name = 'NoDocumentError'
  }

  constructor(collection: string, id: string) {
    super(`There is no document ${quoted(id)} in ${quoted(collection)}.`, { code: 'no_document' })
  }
}

/** Thrown when somebody else holds a document for too long, for example in a transaction. Nothing changed. */
export class DocumentBusyError extends RetryableError {
  static {
    DocumentBusyError.prototype.name = 'DocumentBusyError'
  }

  constructor(collection: string, id: string) {
    super(
      `Document ${quoted(id)} of ${quoted(collection)} is held by somebody else: nothing changed. Does a transaction of your own have it?`,
      { code: 'document_busy' },
    )
  }
}
