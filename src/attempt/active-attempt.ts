import { TimeoutError } from '../policy/index.js'
import { refusal } from '../policy/internal.js'
import type { Overran, OverrunReason } from '../telemetry/internal.js'
import { awaited, LazyAbort, type Sleeper, type Timer } from '../time/index.js'
import { judge } from './judge.js'
import { Overrun } from './overrun.js'
import type { End, Environment, HandlerSteps, Plan, Returned, Stopped } from './plan.js'
import { report, tell } from './report.js'
import { spanEnd } from './span-end.js'
import { type AttemptSpan, currentTracer } from './tracer.js'

/** The work of one attempt, and who takes its end. A driver is one object, since a worker makes one for every task. */
export interface Driver extends Plan {
  traceId?: string | undefined
  /** The steps of the handler, once it has begun one. */
  readonly steps?: HandlerSteps | undefined
  /** Runs the handler. */
  call(attempt: ActiveAttempt): unknown
  /** Says what the handler's result asks for. If it throws, the attempt has failed. */
  returned(result: unknown): Returned
  /** The end as sinks and traces are told of it. Default: as it is. */
  told?(end: End): End
  /** Takes the end of the attempt. Called once. */
  ended(end: End, attempt: ActiveAttempt): void
}

/**
 * One attempt, from its start to its end. It knows neither store nor bus: the driver carries the end to them. It is in one
 * of these states:
 *
 * - **running**: the handler decides how it ends.
 * - **called off**: its lease is over, and its signal has aborted. It ends uncounted, unless the handler succeeds without
 *   having read its signal.
 * - **cut short**: its time is up, or it was cancelled, and its signal has aborted. Its end is certain, but it ends only
 *   when its handler does: until then it keeps its slot, so that no two handlers of an ordered lane overlap and a worker
 *   never runs more than it may. A handler that goes on for too long is abandoned.
 * - **closing**: its handler has ended, and steps that it began have not. They are waited for, since their ends belong to the
 *   attempt.
 * - **ended**: whatever the handler does no longer matters. `stop` ends it at once.
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
  /** The certain end of an attempt that was cut short, and when that was. */
  #cut: Cut | undefined
  #overrun: OverrunReason | undefined
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

  /** Whether no other attempt follows if it fails. */
  get isLast(): boolean {
    return this.number >= this.#driver.policy.attempts
  }

  /** Whether it has ended: whatever its handler returns no longer matters. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Set while its handler goes on although it was told to end. */
  get overrun(): OverrunReason | undefined {
    return this.#overrun
  }

  /** When its end was certain, on the clock of its history. */
  get endedAt(): number {
    return this.#cut?.at ?? this.#driver.now()
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
    const calledOff = this.#calledOff
    if (calledOff !== undefined) return this.#cutShort(calledOff, calledOff.reason, 'lease_lost')
    tell(this.#driver, { type: 'timed_out', timeoutMs }, this.#environment)
    const failure = new TimeoutError(`The attempt timed out after ${timeoutMs} ms.`, { timeoutMs })
    this.#cutShort(judge(this.#driver, failure, this.#environment), failure, 'timeout')
  }

  /** Aborts the signal, and the steps of the handler with it. */
  override abort(reason: unknown): void {
    super.abort(reason)
    this.#driver.steps?.abort(reason)
  }

  /** Cuts it short, since nobody wants its result any more. */
  cancel(reason: unknown): void {
    this.#cutShort({ type: 'stopped', reason }, reason, 'cancelled')
  }

  /**
   * Asks the handler to end, because the attempt may be worth nothing any more: its lease is over. A failure then ends the
   * attempt uncounted. So does a result, unless the handler never looked at its signal: many return early when it aborts,
   * and that must not pass for a success.
   */
  callOff(reason: unknown): void {
    if (this.#hasEnded || this.#calledOff !== undefined) return
    this.#calledOff = { type: 'stopped', reason }
    if (this.isSignalRead) awaited.add(this.signal)
    this.abort(reason)
  }

  /** Ends it now: the signal aborts, and the handler is left to itself. */
  stop(reason: unknown): void {
    const cut = this.#cut
    this.abort(reason)
    cut?.overrun.end('abandoned')
    this.#end(cut?.end ?? { type: 'stopped', reason })
  }

  /** Tells that its handler goes on although it was told to end, or no longer does. */
  overran(type: Overran['type'], reason: OverrunReason, durationMs: number): void {
    this.#overrun = type === 'overrun_began' ? reason : undefined
    tell(this.#driver, { type, reason, durationMs }, this.#environment)
  }

  /** It ends in this way as soon as its handler ends, or has been given enough time. */
  #cutShort(end: End, reason: unknown, why: OverrunReason): void {
    if (this.#hasEnded || this.#cut !== undefined) return
    const { clock } = this.#environment
    const driver = this.#driver
    this.#clearTimer()
    const overrun = new Overrun(clock, driver.policy.timeout, {
      onNews: (type, durationMs) => this.overran(type, why, durationMs),
      onLimit: () => this.#end(end),
    })
    this.#cut = { end, overrun, at: driver.now(), durationMs: clock.monotonic() - this.#startedAt }
    // Calls and guards under the signal end together with their functions, and the handler ends after them.
    awaited.add(this.signal)
    this.abort(reason)
  }

  #await(result: PromiseLike<unknown>, timeoutMs: number | undefined): void {
    Promise.resolve(result).then(
      value => this.#returned(value),
      failure => this.#failed(failure),
    )
    if (timeoutMs === undefined || this.#hasEnded || this.#cut !== undefined) return
    const { clock } = this.#environment
    // The time that the handler took before it returned its promise counts too.
    const leftMs = timeoutMs - (clock.monotonic() - this.#startedAt)
    this.#timer = clock.setTimer(this, Math.max(0, leftMs))
  }

  #returned(result: unknown): void {
    if (this.#hasEnded) return
    const { steps } = this.#driver
    const open = steps?.close()
    if (open !== undefined) return void open.then(() => this.#returned(result))
    if (this.#cut !== undefined) return this.#end(this.#cut.end)
    if (this.#calledOff !== undefined && this.isSignalRead) return this.#end(this.#calledOff)
    try {
      this.#end(steps?.end() ?? this.#driver.returned(result))
    } catch (failure) {
      this.#failed(failure)
    }
  }

  #failed(failure: unknown): void {
    if (this.#hasEnded) return
    const { steps } = this.#driver
    const open = steps?.close()
    if (open !== undefined) return void open.then(() => this.#failed(failure))
    const certain = this.#cut?.end ?? this.#calledOff ?? steps?.end({ failure })
    this.#end(certain ?? judge(this.#driver, failure, this.#environment))
  }

  #end(end: End): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const { clock, sink } = this.#environment
    this.#clearTimer()
    const cut = this.#cut
    cut?.overrun.end()
    const told = this.#driver.told?.(end) ?? end
    this.#span?.end(spanEnd(told))
    this.#driver.ended(end, this)
    if (sink === undefined) return
    report(this.#driver, told, cut?.durationMs ?? clock.monotonic() - this.#startedAt, this.#environment)
  }

  #clearTimer(): void {
    if (this.#timer !== undefined) this.#environment.clock.clearTimer(this.#timer)
  }
}

/** The end of an attempt that was cut short, though its handler may go on. */
interface Cut {
  readonly end: End
  readonly overrun: Overrun
  /** When it was cut short, on the clock of its history. */
  readonly at: number
  /** How long it had run by then. */
  readonly durationMs: number
}

function isThenable(result: unknown): result is PromiseLike<unknown> {
  return typeof result === 'object' && result !== null && 'then' in result && typeof result.then === 'function'
}
