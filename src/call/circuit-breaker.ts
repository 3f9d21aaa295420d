import {
  type Duration,
  OptionError,
  parseDuration,
  RateLimitedError,
  RedriveError,
  type Verdict,
} from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { type BreakerWindow, FailuresInARow, RecentCalls, RecentTime } from './breaker-window.js'
import { namedInstances } from './named-instances.js'

/**
 * Controls when a circuit breaker opens, and for how long. It opens after `consecutiveFailures`, or else by the rate of
 * failures within its window.
 *
 * @inline
 */
export interface CircuitBreakerOptions {
  /** Opens after this many failures in a row. Replaces the three options that follow. */
  readonly consecutiveFailures?: number | undefined
  /** The share of failed calls in the window at which the breaker opens. Default 0.5. */
  readonly failureRate?: number | undefined
  /** The minimum number of calls in the window before it can open. Default 10. */
  readonly minimumCalls?: number | undefined
  /** The window that it looks back over: a length of time, or a number of calls. Default 30 s. */
  readonly window?: Duration | { readonly calls: number } | undefined
  /**
   * How long it stays open before it admits a probe: a call that finds out whether the service works again. A list is for
   * the first time that it opens, the second in a row and so on; its last entry holds from then on. Default 30 s.
   */
  readonly openFor?: Duration | readonly Duration[] | undefined
  /** How many probes, one after another, have to succeed until it closes. Default 1. */
  readonly probes?: number | undefined
}

/** `closed`: calls go through. `open`: calls are refused. `half_open`: probes go through, one at a time. */
export type BreakerState = 'closed' | 'open' | 'half_open'

/** A change of a breaker's state. */
export interface BreakerChange {
  /** The name of the breaker. */
  readonly breaker: string
  /** The state that it left. */
  readonly from: BreakerState
  /** The state that it is in now. */
  readonly to: BreakerState
  /** Whether `open()` or `close()` was called. */
  readonly isByHand: boolean
}

/** Identifies an admitted attempt, so that its outcome counts only while the breaker is still in the state of then. */
export type Admission = number

/**
 * Thrown when an open circuit breaker refuses a call. Outer layers treat it as a rate limit: `retryAfterMs` says when
 * the breaker will admit a call again. It is `undefined` if the breaker was opened by hand.
 */
export class BreakerOpenError extends RateLimitedError {
  static {
    BreakerOpenError.prototype.name = 'BreakerOpenError'
  }
  /** The name of the breaker. */
  readonly breaker: string

  constructor(breaker: string, retryAfterMs: number | undefined, options?: ErrorOptions) {
    const until =
      retryAfterMs === undefined
        ? 'It was opened by hand, and stays open until it is closed by hand.'
        : `It lets a call through again in ${retryAfterMs} ms.`
    super(`Circuit breaker '${breaker}' is open: not called. ${until}`, {
      ...options,
      code: 'breaker_open',
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    })
    this.breaker = breaker
  }
}

/**
 * Refuses calls to a service that keeps failing. Final failures (a 404, a bug) do not count, because the service did
 * answer.
 *
 * closed ──too many failures──► open ──after openFor──► half open ──all probes succeed──► closed
 *                                ▲                          │
 *                                └────── a probe fails ─────┘
 *
 * A probe that has not ended after `openFor` no longer holds others up: the next one is admitted beside it. Its outcome
 * counts however late it comes, as long as the breaker has been half open since. A probe without an outcome, such as an
 * aborted one, makes room for the next and changes nothing else.
 *
 * `open()` and `close()` do so by hand.
 */
export class CircuitBreaker {
  /** Its name, for errors and metrics. */
  readonly name: string
  readonly #window: BreakerWindow
  readonly #openForMs: readonly number[]
  readonly #probes: number
  readonly #listeners = new Set<(change: BreakerChange) => unknown>()
  #current: BreakerState = 'closed'
  /** Counts state changes and probes: the admission of the latest probe, or of all calls while it is closed. */
  #latest: Admission = 0
  /** The first admission of the current state. Outcomes of earlier ones are ignored. */
  #first: Admission = 0
  #openUntil = 0
  /** How many times it has opened since it was last closed. */
  #opened = 0
  /** How many probes are still to succeed. */
  #probesLeft = 0

  constructor(name: string, options: CircuitBreakerOptions = {}) {
    checkOptions('A circuit breaker', options, BREAKER_OPTIONS)
    const { openFor = '30s', probes = 1 } = options
    this.name = name
    this.#window = windowOf(options)
    this.#openForMs = listOf(openFor).map(duration => time('openFor', duration))
    this.#probes = count('probes', probes)
  }

  /** The state as of the last attempt: an open breaker becomes half open with the first call after `openFor`. */
  get state(): BreakerState {
    return this.#current
  }

  /** Opens it by hand: it refuses all calls until `close()` is called. */
  open(): void {
    this.#openUntil = Infinity
    this.#enter('open', true)
  }

  /** Closes it by hand, however it was opened, and forgets all failures. */
  close(): void {
    this.#close(true)
  }

  /** Calls a listener on every change of state. Returns a function that removes it. */
  onChange(listener: (change: BreakerChange) => unknown): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Admits a call, or returns undefined. `now` is monotonic time of the caller's clock. */
  admit(now: number): Admission | undefined {
    if (this.#current === 'closed') return this.#latest
    if (now < this.#openUntil) return undefined
    // If the probe never reports back, another is admitted after the same time.
    this.#openUntil = now + this.#openTimeMs()
    if (this.#current === 'half_open') return ++this.#latest
    this.#probesLeft = this.#probes
    this.#enter('half_open')
    return this.#latest
  }

  /** Creates the error for a refused call. */
  refusal(now: number, cause?: unknown): BreakerOpenError {
    const leftMs = Math.max(0, Math.ceil(this.#openUntil - now))
    return new BreakerOpenError(this.name, leftMs < Infinity ? leftMs : undefined, { cause })
  }

  /** Records the outcome of an admitted call; `undefined` if it has none, such as an aborted call. */
  record(admission: Admission | undefined, succeeded: boolean | undefined, now: number): void {
    if (succeeded === undefined) return this.release(admission, now)
    if (admission === undefined || admission < this.#first) return
    if (this.#current === 'closed') {
      if (this.#window.isFailingAfter(succeeded, now)) this.#open(now)
    } else if (!succeeded) {
      this.#open(now)
    } else if (--this.#probesLeft > 0) {
      this.release(admission, now)
    } else {
      this.#close()
    }
  }

  /**
   * Records the failure of an admitted call. A final failure is an answer, so the service works. An abort or a full bulkhead
   * says nothing about the service.
   */
  failed(admission: Admission | undefined, { class: verdict, code }: Verdict, now: number): void {
    const isFinal = verdict === 'final'
    const isLocal = code === 'bulkhead_full' || (isFinal && code === 'aborted')
    this.record(admission, isLocal ? undefined : isFinal, now)
  }

  /** Takes back the admission of a call without an outcome, such as an aborted one: the next probe need not wait. */
  release(admission: Admission | undefined, now: number): void {
    if (admission === this.#latest && this.#current === 'half_open') this.#openUntil = now
  }

  #open(now: number): void {
    this.#opened++
    this.#openUntil = now + this.#openTimeMs()
    this.#enter('open')
  }

  #close(isByHand = false): void {
    this.#opened = 0
    this.#window.clear()
    this.#enter('closed', isByHand)
  }

  #openTimeMs(): number {
    const times = this.#openForMs
    return times[Math.min(this.#opened, times.length) - 1] ?? 0
  }

  #enter(to: BreakerState, isByHand = false): void {
    const from = this.#current
    this.#current = to
    this.#first = ++this.#latest
    if (from === to) return
    for (const listener of this.#listeners) tell(listener, { breaker: this.name, from, to, isByHand })
  }
}

/** Returns the breaker with this name. All calls that name it share it; the first may set its options. */
export const circuitBreaker = /* @__PURE__ */ namedInstances(
  'circuit breaker',
  (name: string, options?: CircuitBreakerOptions) => new CircuitBreaker(name, options),
)

const BREAKER_OPTIONS: KnownOptions<CircuitBreakerOptions> = {
  consecutiveFailures: '',
  failureRate: '',
  minimumCalls: '',
  window: '',
  openFor: '',
  probes: '',
}

function windowOf(options: CircuitBreakerOptions): BreakerWindow {
  const { consecutiveFailures, failureRate = 0.5, window = '30s' } = options
  if (consecutiveFailures !== undefined) {
    const other = (['failureRate', 'minimumCalls', 'window'] as const).find(name => options[name] !== undefined)
    if (other === undefined) return new FailuresInARow(count('consecutiveFailures', consecutiveFailures))
    throw new OptionError(other, `Circuit breaker: '${other}' is not for a breaker with 'consecutiveFailures'.`)
  }
  inRange('failureRate', failureRate, failureRate > 0 && failureRate <= 1, 'above 0, at most 1')
  if (typeof window !== 'object' || window === null) {
    const minimumCalls = count('minimumCalls', options.minimumCalls ?? 10)
    return new RecentTime(time('window', window), { failureRate, minimumCalls })
  }
  const size = count('window', window.calls)
  const minimumCalls = count('minimumCalls', options.minimumCalls ?? Math.min(10, size))
  inRange('minimumCalls', minimumCalls, minimumCalls <= size, `no more than the ${size} calls of the window`)
  return new RecentCalls(size, { failureRate, minimumCalls })
}

function listOf(openFor: Duration | readonly Duration[]): readonly Duration[] {
  const list = typeof openFor === 'object' ? openFor : [openFor]
  if (Array.isArray(list) && list.length > 0) return list
  throw new OptionError('openFor', `Circuit breaker: 'openFor' must be a duration such as '30s', or a list of them.`)
}

function time(option: string, value: Duration): number {
  const ms = parseDuration(value)
  return inRange(option, ms ?? Number.NaN, ms !== undefined && ms > 0, `a duration such as '30s', longer than 0`)
}

function count(option: string, value: number): number {
  return inRange(option, value, Number.isInteger(value) && value > 0, 'a whole number above 0')
}

function inRange(option: string, value: number, isValid: boolean, expected: string): number {
  if (!isValid) throw new OptionError(option, `Circuit breaker: '${option}' must be ${expected}, got ${value}.`)
  return value
}

/** Calls a listener. If it throws or rejects, that is a warning: a listener never touches the work. */
function tell<T>(listener: (event: T) => unknown, event: T): void {
  try {
    Promise.resolve(listener(event)).catch(warn)
  } catch (error) {
    warn(error)
  }
}

function warn(cause: unknown): void {
  process.emitWarning(new RedriveError('listener_failed', 'A listener of a circuit breaker failed.', { cause }))
}
