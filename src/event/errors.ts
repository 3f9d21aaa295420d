import type { Message } from '../bus/index.js'
import { FinalError, RedriveError, RetryableError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { DeadLetterEntry } from './dead-letter-entry.js'

/** Throw this from a handler when the document that an event is about is not visible yet. The event is retried. */
export class DocumentNotFoundError extends RetryableError {
  static {
    DocumentNotFoundError.prototype.name = 'DocumentNotFoundError'
  }

  constructor(message: string, options?: ErrorOptions) {
    super(message, { ...options, code: 'document_not_found' })
  }
}

/** Thrown when an event has used up the attempts or the time that its policy allows. `cause` is its last failure. */
export class EventExhaustedError extends RedriveError {
  static {
    EventExhaustedError.prototype.name = 'EventExhaustedError'
  }

  constructor(
    /** The dead letter that was written. */
    readonly deadLetter: DeadLetterEntry,
    options: ErrorOptions,
  ) {
    const { idempotency_key, attempt_count, abandoned_reason, last_error } = deadLetter
    const times = `${attempt_count} attempt${attempt_count === 1 ? '' : 's'}`
    super(
      'event_exhausted',
      `Gave up on the event ${quoted(idempotency_key)} after ${times} (${abandoned_reason}). Last failure: ${last_error}`,
      options,
    )
  }
}

/** Thrown when an event was given up and its dead letter could not be written. Do not acknowledge the event. */
export class DeadLetterError extends RedriveError {
  static {
    DeadLetterError.prototype.name = 'DeadLetterError'
  }

  constructor(
    /** The dead letter that could not be written. */
    readonly deadLetter: DeadLetterEntry,
    options: ErrorOptions,
  ) {
    super(
      'dead_letter_not_written',
      `The dead letter of the event ${quoted(deadLetter.idempotency_key)} could not be written. The event must be handled again: do not acknowledge it.`,
      options,
    )
  }
}

/** Throws if the headers of a message could not be read: whatever they were to say, the handler would not know it. */
export function checkReadable({ unreadable }: Pick<Message, 'unreadable'>): void {
  if (unreadable === undefined) return
  throw new FinalError(
    `The headers of the message could not be read: ${unreadable.reason}. Redrive it to handle it without them.`,
    { code: 'unreadable_headers' },
  )
}
