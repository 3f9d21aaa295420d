import {
  advance,
  allowance,
  begin,
  classify,
  decide,
  type GiveUpReason,
  type History,
  identityRandom,
  type Policy,
  parseDuration,
  type Verdict,
} from '../policy/index.js'
import type { Work } from '../telemetry/index.js'
import { type Clock, type Sleeper, soon, systemClock, type Timer, unwatchAbort, watchAbort } from '../time/index.js'
import { type Attempt, RunningAttempt, timeoutError } from './attempt.js'
import { CallEvents } from './call-events.js'
import { type AttemptRecord, OptionError, RetryExhaustedError } from './errors.js'
import type { RetryOptions } from './retry.js'

const ABORTED: Verdict = { class: 'final', code: 'aborted' }

/** The history of a call that nothing times. */
const UNTIMED = begin(0)

/**
 * A call from its first attempt to its end. It is in one of three states:
 *
 * - **running**: `attempt` is under way, and the timer is armed if its time is limited. Entered at the start and after
 *   each wait; left when the function settles, when the time is up, or when the caller aborts.
 * - **waiting**: there is no `attempt`, and the timer is armed for the next one. Entered when the kernel says to retry
 *   or to defer; left when the next attempt is due, or when the caller aborts.
 * - **ended**: the promise is settled, no timer is armed, and the caller's signal is no longer watched.
 *
 * What settles late belongs to an attempt that is not the current one, and is ignored.
 *
 * Callbacks drive it rather than an async function, which would double the memory of a waiting call.
 */
export class Call<T> implements Sleeper {
  readonly promise: Promise<T>
  private resolve!: (result: T) => void
  private reject!: (reason: unknown) => void
  private readonly clock: Clock
  private readonly policy: Policy
  private readonly signal: AbortSignal | undefined
  private readonly onAbort: (() => void) | undefined
  private readonly events: CallEvents | undefined
  /** Reading the clock costs a third of a call, so it is read only if something depends on it. */
  private readonly isTimed: boolean
  private history: History
  private records: AttemptRecord[] | undefined = undefined
  private attempt: RunningAttempt | undefined = undefined
  private timer: Timer | undefined = undefined
  private hasEnded = false

  constructor(
    private readonly fn: (attempt: Attempt) => T | PromiseLike<T>,
    policy: Policy,
    private readonly options: RetryOptions,
  ) {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    const { clock = systemClock, within } = options
    this.clock = clock
    // An inner layer that retried as well would make nine calls out of three attempts.
    this.policy = within === undefined ? policy : { ...policy, attempts: 1, deferrals: 0 }
    this.signal = signalOf(options)
    this.onAbort = this.signal === undefined ? undefined : () => this.aborted()
    this.events = eventsOf(options, clock, this.policy)
    this.isTimed = isTimed(policy, options)
    this.history = this.isTimed ? beginNow(options, clock) : UNTIMED
    if (this.signal !== undefined && this.onAbort !== undefined) watchAbort(this.signal, this.onAbort)
    options.budget?.deposit()
  }

  /** The timer of the current state went off. */
  wake(): void {
    this.timer = undefined
    if (this.hasEnded) return
    if (this.attempt === undefined) this.run()
    else this.timedOut(this.attempt)
  }

  /** Begins an attempt, unless something keeps it from beginning. */
  run(): void {
    const { breaker } = this.options
    if (this.signal?.aborted) return this.refuse('aborted', this.signal.reason, ABORTED)
    const now = this.isTimed ? this.clock.monotonic() : 0
    const limitMs = this.isTimed ? allowance(this.policy, this.history, now) : Infinity
    const attempt = new RunningAttempt(this.history.attempts + 1, this.history.deadline, now, limitMs)
    if (breaker !== undefined) {
      attempt.admission = breaker.admit(now)
      if (attempt.admission === undefined) {
        const error = breaker.refusal(now, this.records?.at(-1)?.failure)
        return this.refuse('breaker_open', error, { class: 'rate_limited', code: error.code })
      }
    }
    this.attempt = attempt
    this.events?.started(attempt)
    if (limitMs <= 0) return this.timedOut(attempt)
    if (limitMs < Infinity) this.timer = this.clock.setTimer(this, limitMs)
    try {
      Promise.resolve(this.fn(attempt)).then(
        result => this.succeeded(attempt, result),
        failure => this.failed(attempt, failure),
      )
    } catch (failure) {
      this.failed(attempt, failure)
    }
  }

  private succeeded(attempt: RunningAttempt, result: T): void {
    if (attempt !== this.attempt) return
    const { breaker } = this.options
    if (breaker !== undefined || this.events !== undefined) {
      const now = this.clock.monotonic()
      breaker?.record(attempt.admission, true, now)
      this.events?.succeeded(attempt, now)
    }
    this.end()
    this.resolve(result)
  }

  private timedOut(attempt: RunningAttempt): void {
    const error = timeoutError(attempt, this.policy.timeout, this.options.category)
    this.events?.timedOut(attempt)
    attempt.stop(error)
    this.failed(attempt, error)
  }

  private aborted(): void {
    const { attempt, signal } = this
    if (attempt === undefined) return this.refuse('aborted', signal?.reason, ABORTED)
    attempt.stop(signal?.reason)
    this.failed(attempt, signal?.reason)
  }

  private failed(attempt: RunningAttempt, failure: unknown): void {
    if (attempt !== this.attempt) return
    try {
      this.decideOn(attempt, failure)
    } catch (mistake) {
      // Code of the caller's own, such as `random`, threw. The call must not hang for that.
      this.end()
      this.reject(mistake)
    }
  }

  private decideOn(attempt: RunningAttempt, failure: unknown): void {
    const { breaker, budget, classify: classifier } = this.options
    const aborted = this.signal?.aborted === true
    const now = this.clock.monotonic()
    const failedAt = this.clock.now()
    const verdict = aborted ? ABORTED : classify(failure, this.policy, failedAt, classifier)
    if (aborted) breaker?.release(attempt.admission, now)
    else breaker?.record(attempt.admission, verdict.class === 'final', now)

    const random = this.draw(attempt.attempt)
    const circumstances = { now, random, aborted, budgetEmpty: budget?.isEmpty(now) }
    const decision = decide(this.policy, this.history, verdict, circumstances)
    this.history = advance(this.history, verdict, decision)
    const record = { attempt: attempt.attempt, failedAt, failure, verdict, random, decision }
    if (this.records === undefined) this.records = [record]
    else this.records.push(record)
    this.events?.failed(attempt, record, now)

    if (decision.action === 'give_up') return this.giveUp(decision.reason, failure)
    budget?.withdraw()
    this.wait(decision.delayMs)
  }

  private wait(delayMs: number): void {
    this.attempt = undefined
    this.disarm()
    if (delayMs === 0) soon(this)
    else this.timer = this.clock.setTimer(this, delayMs)
  }

  private giveUp(reason: GiveUpReason, failure: unknown): void {
    this.end()
    if (reason === 'final_error') this.reject(failure)
    else if (reason === 'aborted') this.reject(this.signal?.reason)
    else this.reject(new RetryExhaustedError(this.options.name ?? 'call', reason, this.records ?? []))
  }

  /** Ends the call without a further attempt having been made. */
  private refuse(reason: 'aborted' | 'breaker_open', failure: unknown, verdict: Verdict): void {
    this.events?.refused(this.history.attempts, reason, failure, verdict)
    this.end()
    this.reject(failure)
  }

  private end(): void {
    this.hasEnded = true
    this.attempt = undefined
    this.disarm()
    if (this.signal !== undefined && this.onAbort !== undefined) unwatchAbort(this.signal, this.onAbort)
  }

  private disarm(): void {
    if (this.timer === undefined) return
    this.clock.clearTimer(this.timer)
    this.timer = undefined
  }

  /** Where the delay falls within its jitter: derived from the call's identity, if it has one. On record either way. */
  private draw(attempt: number): number {
    const { random, id = this.events?.work.id } = this.options
    if (random !== undefined) return fraction(random())
    return id === undefined ? Math.random() : identityRandom(id, attempt)
  }
}

function fraction(value: number): number {
  if (value >= 0 && value < 1) return value
  throw new OptionError('random', `'random' must return a number from 0 up to, but not including, 1; got ${value}.`)
}

function eventsOf(options: RetryOptions, clock: Clock, policy: Policy): CallEvents | undefined {
  if (options.sink === undefined) return undefined
  const { id = crypto.randomUUID(), name = 'call', category, tenantId, correlationId, traceId, context } = options
  const work: Work = { kind: 'call', id, name, category, tenantId, correlationId, traceId, context }
  return new CallEvents(options.sink, clock, work, policy.attempts)
}

function isTimed(policy: Policy, { deadline, within, breaker, sink }: RetryOptions): boolean {
  const limit = policy.timeout ?? policy.ttl ?? deadline ?? within?.deadline
  return limit !== undefined || breaker !== undefined || sink !== undefined
}

function signalOf({ signal, within }: RetryOptions): AbortSignal | undefined {
  if (within === undefined) return signal
  return signal === undefined ? within.signal : AbortSignal.any([signal, within.signal])
}

function beginNow({ deadline, within }: RetryOptions, clock: Clock): History {
  const startedAt = clock.monotonic()
  if (deadline === undefined) return begin(startedAt, within?.deadline)
  const ms = parseDuration(deadline)
  if (ms === undefined) {
    throw new OptionError('deadline', `'deadline' must be a duration such as '10s', got ${String(deadline)}.`)
  }
  return begin(startedAt, Math.min(startedAt + ms, within?.deadline ?? Infinity))
}
