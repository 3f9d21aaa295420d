/**
 * The base of every error that Redrive throws. `code` is stable: match on it, not on the message.
 *
 * Each class has its name on its prototype, so that a policy that lists `'RetryableError'` still finds it after a
 * bundler has renamed the class. That takes a static block, which no bundler removes. So the errors that a bundle may
 * not need, `FinalError` and `RateLimitedError`, have their own files, which a bundler can leave out.
 */
export class RedriveError extends Error {
  static {
    RedriveError.prototype.name = 'RedriveError'
  }
  /** The stable code of the error: match, count and alert on it. */
  readonly code: string

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
    // A subclass that has not named itself is still reported under its own name.
    if (!Object.hasOwn(new.target.prototype, 'name')) this.name = new.target.name
  }
}

/** Thrown when a policy is invalid: `field` says which part of it, as in `backoff.base`. */
export class PolicyError extends RedriveError {
  static {
    PolicyError.prototype.name = 'PolicyError'
  }
  /** The part that is wrong, as in `backoff.base`. */
  readonly field: string

  constructor(field: string, problem: string) {
    super('invalid_policy', `Invalid policy: ${problem}`)
    this.field = field
  }
}

/** Thrown when an option or an argument is invalid: `option` says which. */
export class OptionError extends RedriveError {
  static {
    OptionError.prototype.name = 'OptionError'
  }
  /** The name of the option. */
  readonly option: string

  constructor(option: string, problem: string) {
    super('invalid_option', problem)
    this.option = option
  }
}

/** Throw it, or a subclass, from any work to say that the failure may be temporary. */
export class RetryableError extends RedriveError {
  static {
    RetryableError.prototype.name = 'RetryableError'
  }

  constructor(message: string, options?: ErrorOptions & { code?: string }) {
    super(options?.code ?? (new.target === RetryableError ? 'retryable' : new.target.name), message, options)
  }
}

/** An attempt ran for longer than its policy allows. Its code is `timeout`, or `TIMEOUT_<CATEGORY>` in a category. */
export class TimeoutError extends RetryableError {
  static {
    TimeoutError.prototype.name = 'TimeoutError'
  }
  /** How long it was allowed to take. */
  readonly timeoutMs: number

  constructor(message: string, options: ErrorOptions & { code?: string; timeoutMs: number }) {
    super(message, { ...options, code: options.code ?? 'timeout' })
    this.timeoutMs = options.timeoutMs
  }
}
