import { TimeoutError } from '../policy/index.js'
import { refusal } from '../policy/internal.js'
import { LazyAbort, type Sleeper, type Timer } from '../time/index.js'
import { judge } from './judge.js'
import type { End, Environment, Plan, Returned, Stopped } from './plan.js'
import { report, tell } from './report.js'
import { spanEnd } from './span-end.js'
import { type AttemptSpan, currentTracer } from './tracer.js'

/** The work of one attempt, and who takes its end. A driver is one object, since a worker makes one for every task. */
export interface Driver extends Plan {
  traceId?: string | undefined
  /** Runs the handler. */
  call(attempt: ActiveAttempt): unknown
  /** Says what the handler's result asks for. If it throws, the attempt has failed. */
  returned(result: unknown): Returned
  /** Takes the end of the attempt. Called once. */
  ended(end: End, attempt: ActiveAttempt): void
}

/**
 * One attempt, from its start to its end. It ends when the handler returns or throws, when its time is up, or when it is
 * stopped from outside, whichever comes first. It knows neither store nor bus: the driver carries the end to them.
 *
 * Whatever a handler does after its signal has aborted is judged by why it aborted, never by what the handler throws: it
 * may reject with the signal's reason, with an `AbortError`, or with an error of its own that followed from the abort.
 */
export class ActiveAttempt extends LazyAbort implements Sleeper {
  readonly #driver: Driver
  readonly #environment: Environment
  readonly #startedAt: number
  #timer: Timer | undefined
  #span: AttemptSpan | undefined
  /** The end if the handler fails, since its attempt was called off. */
  #calledOff: Stopped | undefined
  #hasEnded = false

  constructor(driver: Driver, environment: Environment) {
    super()
    this.#driver = driver
    this.#environment = environment
    this.#startedAt = environment.clock.monotonic()
  }

  /** The number of the attempt, from 1. */
  get number(): number {
    return this.#driver.history.attempts + 1
  }

  /** Whether it has ended: whatever its handler returns no longer matters. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Its span, if it is traced. */
  get span(): AttemptSpan | undefined {
    return this.#span
  }

  /** Calls the handler, unless the time to live is over. */
  start(): void {
    const driver = this.#driver
    const { policy, history } = driver
    const reason = refusal(policy, history, driver.now())
    if (reason !== undefined) return this.#end({ type: 'refused', reason })
    const tracer = currentTracer()
    if (tracer !== undefined) {
      const { traceparent, isFirst } = driver
      const about = { attempt: this.number, maxAttempts: policy.attempts, traceparent, isFirst }
      this.#span = tracer.begin({ work: driver.work(), ...about })
      driver.traceId = this.#span?.traceId
    }
    tell(driver, { type: 'attempt_started', deferrals: history.deferrals }, this.#environment)
    let result: unknown
    try {
      result = this.#span === undefined ? driver.call(this) : this.#span.run(() => driver.call(this))
      if (isThenable(result)) return this.#await(result, policy.timeout)
    } catch (failure) {
      return this.#failed(failure)
    }
    // It has returned already: it needs neither a timer nor a promise.
    this.#returned(result)
  }

  /** Its time is up. */
  wake(): void {
    const timeoutMs = this.#driver.policy.timeout ?? 0
    if (this.#calledOff !== undefined) return this.#end(this.#calledOff)
    tell(this.#driver, { type: 'timed_out', timeoutMs }, this.#environment)
    const failure = new TimeoutError(`The attempt timed out after ${timeoutMs} ms.`, { timeoutMs })
    this.abort(failure)
    this.#failed(failure)
  }

  /**
   * Asks the handler to end, because the attempt may be worth nothing any more: its lease is over. A failure then ends the
   * attempt uncounted. So does a result, unless the handler never looked at its signal: many return early when it aborts,
   * and that must not pass for a success.
   */
  callOff(reason: unknown): void {
    if (this.#hasEnded || this.#calledOff !== undefined) return
    this.#calledOff = { type: 'stopped', reason }
    this.abort(reason)
  }

  /** Ends it from outside: the signal aborts, and the result of the handler no longer matters. */
  stop(reason: unknown): void {
    this.abort(reason)
    this.#end({ type: 'stopped', reason })
  }

  #await(result: PromiseLike<unknown>, timeoutMs: number | undefined): void {
    Promise.resolve(result).then(
      value => this.#returned(value),
      failure => this.#failed(failure),
    )
    if (timeoutMs === undefined || this.#hasEnded) return
    const { clock } = this.#environment
    // The time that the handler took before it returned its promise counts too.
    const leftMs = timeoutMs - (clock.monotonic() - this.#startedAt)
    this.#timer = clock.setTimer(this, Math.max(0, leftMs))
  }

  #returned(result: unknown): void {
    if (this.#hasEnded) return
    if (this.#calledOff !== undefined && this.isSignalRead) return this.#end(this.#calledOff)
    try {
      this.#end(this.#driver.returned(result))
    } catch (failure) {
      this.#failed(failure)
    }
  }

  #failed(failure: unknown): void {
    if (!this.#hasEnded) this.#end(this.#calledOff ?? judge(this.#driver, failure, this.#environment))
  }

  #end(end: End): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const { clock, sink } = this.#environment
    if (this.#timer !== undefined) clock.clearTimer(this.#timer)
    this.#span?.end(spanEnd(end))
    this.#driver.ended(end, this)
    if (sink !== undefined) report(this.#driver, end, clock.monotonic() - this.#startedAt, this.#environment)
  }
}

function isThenable(result: unknown): result is PromiseLike<unknown> {
  return typeof result === 'object' && result !== null && 'then' in result && typeof result.then === 'function'
}
