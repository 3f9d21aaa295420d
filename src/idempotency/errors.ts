import { FinalError, formatDuration, RetryableError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/**
 * Thrown when an idempotency key is invalid: empty, not text, too long, or with characters that a store cannot keep.
 */
export class IdempotencyKeyError extends FinalError {
  static {
    IdempotencyKeyError.prototype.name = 'IdempotencyKeyError'
  }

  constructor(key: unknown, problem: string) {
    super(
      `Invalid idempotency key ${quoted(key)}: it ${problem}. A hash of any parameters fits: see idempotencyKey().`,
      {
        code: 'idempotency_key_invalid',
      },
    )
  }
}

/** Thrown when parameters cannot be compared because JSON cannot represent them. */
export class IdempotencyParamsError extends FinalError {
  static {
    IdempotencyParamsError.prototype.name = 'IdempotencyParamsError'
  }

  constructor(what: string, problem: string, options?: ErrorOptions) {
    super(`The parameters of ${quoted(what)} cannot be hashed: ${problem}. Pass plain data.`, {
      ...options,
      code: 'idempotency_params_invalid',
    })
  }
}

/** Thrown when a key belongs to a request with other parameters, so that its result does not answer this one. */
export class IdempotencyMismatchError extends FinalError {
  static {
    IdempotencyMismatchError.prototype.name = 'IdempotencyMismatchError'
  }
  /** The key. */
  readonly key: string

  constructor(key: string) {
    super(
      `The idempotency key ${quoted(key)} was already used with other parameters: not run. Use a new key for a new request.`,
      { code: 'idempotency_mismatch' },
    )
    this.key = key
  }
}

/** Thrown when another caller is running under this key, and this one does not wait or has waited long enough. */
export class IdempotencyInProgressError extends RetryableError {
  static {
    IdempotencyInProgressError.prototype.name = 'IdempotencyInProgressError'
  }
  /** The key. */
  readonly key: string
  /** The time until the other caller loses the key, unless it renews its lease first. */
  readonly leaseLeftMs: number

  constructor(key: string, leaseLeftMs: number) {
    super(
      `The idempotency key ${quoted(key)} is in progress elsewhere (its lease has ${formatDuration(leaseLeftMs)} left): ` +
        `not run. Try again later, or wait for it with the option 'wait'.`,
      { code: 'idempotency_in_progress' },
    )
    this.key = key
    this.leaseLeftMs = leaseLeftMs
  }
}

/**
 * The lease expired while the function ran, and another caller took the key over. The function's signal aborts with
 * this error as its reason. A caller gets it if the function ended anyway and the other caller's result is not
 * available (see `cause`).
 */
export class IdempotencyLeaseLostError extends RetryableError {
  static {
    IdempotencyLeaseLostError.prototype.name = 'IdempotencyLeaseLostError'
  }
  /** The key. */
  readonly key: string

  constructor(key: string, options?: ErrorOptions) {
    super(
      `The idempotency key ${quoted(key)} was taken over while its function ran, so its result was discarded. ` +
        'Call again with the same key to get the result of the new owner.',
      { ...options, code: 'idempotency_lease_lost' },
    )
    this.key = key
  }
}

/** Thrown when the work under a key is done, and so is not run again, but its result could not be stored. */
export class IdempotencyResultUnavailableError extends FinalError {
  static {
    IdempotencyResultUnavailableError.prototype.name = 'IdempotencyResultUnavailableError'
  }
  /** The key. */
  readonly key: string

  constructor(key: string, reason: string, options?: ErrorOptions) {
    super(
      `The work under the idempotency key ${quoted(key)} is done and was not run again, but its result is not available: ` +
        `${reason}. Look up the result where the work stored it, or clear the key to run it again.`,
      { ...options, code: 'idempotency_result_unavailable' },
    )
    this.key = key
  }
}
