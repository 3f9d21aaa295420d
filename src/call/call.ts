import {
  advance,
  allowance,
  begin,
  classify,
  decide,
  type GiveUpReason,
  type History,
  identityRandom,
  OptionError,
  type Policy,
  parseDuration,
  type Verdict,
} from '../policy/index.js'
import { type AttemptEvent, emit, type Work, type WorkEvent } from '../telemetry/index.js'
import { type Clock, type Sleeper, soon, systemClock, type Timer, unwatchAbort, watchAbort } from '../time/index.js'
import { type Attempt, RunningAttempt, timeoutError } from './attempt.js'
import { type AttemptRecord, RetryExhaustedError } from './errors.js'
import type { RetryOptions } from './retry.js'

/** What an event says besides what it is about. */
type Details<E = WorkEvent> = E extends AttemptEvent ? Omit<E, 'work' | 'at' | 'attempt' | 'maxAttempts'> : never

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
 * What settles late belongs to an attempt that is not the current one, and is ignored. Code of the caller's own, such as
 * a sink, may abort while it is called, so an event is told once the call is in the state that it tells of.
 *
 * Callbacks drive it rather than an async function, which would double the memory of a waiting call.
 */
export class Call<T> implements Sleeper {
  readonly promise: Promise<T>
  private resolve!: (result: T) => void
  private reject!: (reason: unknown) => void
  private readonly clock: Clock
  private readonly policy: Policy
  private readonly onAbort: (() => void) | undefined
  /** What events are about; `undefined` when there is no sink for them. */
  private readonly work: Work | undefined
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
    const { clock = systemClock, within, deadline, breaker, budget, sink } = options
    this.clock = clock
    // An inner layer that retried as well would make nine calls out of three attempts.
    this.policy = within ? { ...policy, attempts: 1, deferrals: 0 } : policy
    this.onAbort = options.signal || within ? () => this.aborted() : undefined
    this.work = sink && describe(options)
    const limit = policy.timeout ?? policy.ttl ?? deadline ?? within?.deadline ?? breaker ?? sink
    this.isTimed = limit !== undefined
    this.history = this.isTimed ? beginNow(options, clock) : UNTIMED
    budget?.deposit()
    if (this.onAbort) this.watch(watchAbort, this.onAbort)
  }

  /** The timer of the current state went off. */
  wake(): void {
    this.timer = undefined
    if (this.hasEnded) return
    if (this.attempt) this.timedOut(this.attempt)
    else this.run()
  }

  /** Begins an attempt, unless something keeps it from beginning. */
  run(): void {
    const { history } = this
    const by = this.onAbort && this.abortedBy()
    if (by) return this.refuse('aborted', by.reason)
    const now = this.isTimed ? this.clock.monotonic() : 0
    const limitMs = this.isTimed ? allowance(this.policy, history, now) : Infinity
    if (limitMs <= 0) return this.refuse('deadline_passed', this.exhausted('deadline_passed'))
    const attempt = new RunningAttempt(history.attempts + 1, history.deadline, now, limitMs)
    if (this.options.breaker && !this.isAdmitted(attempt)) return
    this.attempt = attempt
    if (this.work) this.tell(attempt.attempt, { type: 'attempt_started', deferrals: history.deferrals })
    if (this.hasEnded) return
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

  private isAdmitted(attempt: RunningAttempt): boolean {
    const { breaker } = this.options
    attempt.admission = breaker?.admit(attempt.startedAt)
    if (!breaker || attempt.admission !== undefined) return true
    this.refuse('breaker_open', breaker.refusal(attempt.startedAt, this.records?.at(-1)?.failure))
    return false
  }

  private succeeded(attempt: RunningAttempt, result: T): void {
    if (attempt !== this.attempt) return
    this.end()
    this.resolve(result)
    const { breaker } = this.options
    if (breaker || this.work) {
      const now = this.clock.monotonic()
      breaker?.record(attempt.admission, true, now)
      this.tell(attempt.attempt, { type: 'attempt_succeeded', durationMs: now - attempt.startedAt })
    }
  }

  private timedOut(attempt: RunningAttempt): void {
    const timeoutMs = Math.round(attempt.limitMs)
    const error = timeoutError(timeoutMs, attempt.limitMs !== this.policy.timeout, this.options.category)
    this.tell(attempt.attempt, { type: 'timed_out', timeoutMs })
    attempt.stop(error)
    this.failed(attempt, error)
  }

  private aborted(): void {
    const { attempt } = this
    const reason: unknown = this.abortedBy()?.reason
    if (!attempt) return this.refuse('aborted', reason)
    attempt.stop(reason)
    this.failed(attempt, reason)
  }

  private watch(change: typeof watchAbort, onAbort: () => void): void {
    const { signal, within } = this.options
    if (signal) change(signal, onAbort)
    if (within) change(within.signal, onAbort)
  }

  /** Not `AbortSignal.any`: on Node 20 it forgets a signal that nobody else holds, such as `AbortSignal.timeout()`. */
  private abortedBy(): AbortSignal | undefined {
    const { signal, within } = this.options
    if (signal?.aborted) return signal
    return within?.signal.aborted ? within.signal : undefined
  }

  private failed(attempt: RunningAttempt, failure: unknown): void {
    if (attempt !== this.attempt) return
    try {
      this.decideOn(attempt, failure)
    } catch (mistake) {
      // Code of the caller's own, such as `random`, threw. The call must not hang for that.
      this.fail(mistake)
    }
  }

  private decideOn(attempt: RunningAttempt, failure: unknown): void {
    const now = this.clock.monotonic()
    const record = this.judge(attempt, failure, now)
    if (this.hasEnded) return
    const { verdict, decision } = record
    this.history = advance(this.history, verdict, decision)
    if (this.records) this.records.push(record)
    else this.records = [record]

    if (decision.action === 'give_up') {
      this.fail(
        decision.reason === 'final_error' || decision.reason === 'aborted' ? failure : this.exhausted(decision.reason),
      )
    } else {
      this.options.budget?.withdraw()
      this.wait(decision.delayMs)
    }
    if (this.work) this.report(record, now - attempt.startedAt)
  }

  private judge({ attempt, admission }: RunningAttempt, failure: unknown, now: number): AttemptRecord {
    const { policy, history } = this
    const { breaker, budget, classify: classifier } = this.options
    const failedAt = this.clock.now()
    const aborted = this.abortedBy() !== undefined
    const verdict = aborted ? ABORTED : classify(failure, policy, failedAt, classifier)
    if (aborted) breaker?.release(admission, now)
    else breaker?.record(admission, verdict.class === 'final', now)
    const circumstances = { now, random: this.draw(attempt), aborted, budgetEmpty: budget?.isEmpty(now) }
    const decision = decide(policy, history, verdict, circumstances)
    return { attempt, failedAt, failure, verdict, history, circumstances, decision }
  }

  private report({ attempt, failedAt, failure, verdict, decision }: AttemptRecord, durationMs: number): void {
    const about = { durationMs, failure, verdict }
    if (decision.action === 'give_up') return this.tell(attempt, { type: 'gave_up', ...about, reason: decision.reason })
    const type = decision.action === 'retry' ? 'retry_scheduled' : 'deferred'
    this.tell(attempt, { type, ...about, delayMs: decision.delayMs, nextAttemptAt: failedAt + decision.delayMs })
  }

  private wait(delayMs: number): void {
    this.attempt = undefined
    this.disarm()
    if (delayMs === 0) soon(this)
    else this.timer = this.clock.setTimer(this, delayMs)
  }

  /** Ends the call without a further attempt having been made. */
  private refuse(reason: 'aborted' | 'deadline_passed' | 'breaker_open', failure: unknown): void {
    const verdict: Verdict = { class: reason === 'breaker_open' ? 'rate_limited' : 'final', code: reason }
    this.fail(failure)
    this.tell(this.records?.at(-1)?.attempt ?? 0, { type: 'gave_up', durationMs: 0, failure, verdict, reason })
  }

  private exhausted(reason: GiveUpReason): RetryExhaustedError {
    return new RetryExhaustedError(this.options.name ?? 'call', reason, this.policy, this.records ?? [])
  }

  private fail(reason: unknown): void {
    this.end()
    this.reject(reason)
  }

  private end(): void {
    this.hasEnded = true
    this.attempt = undefined
    this.disarm()
    if (this.onAbort) this.watch(unwatchAbort, this.onAbort)
  }

  private disarm(): void {
    if (this.timer) this.clock.clearTimer(this.timer)
    this.timer = undefined
  }

  private tell(attempt: number, details: Details): void {
    const { sink } = this.options
    if (!sink || !this.work) return
    emit(sink, { work: this.work, at: this.clock.now(), attempt, maxAttempts: this.policy.attempts, ...details })
  }

  /** Where the delay falls within its jitter: derived from the call's identity, if it has one. On record either way. */
  private draw(attempt: number): number {
    const { random, id = this.work?.id } = this.options
    if (random) return fraction(random())
    return id === undefined ? Math.random() : identityRandom(id, attempt)
  }
}

function fraction(value: number): number {
  if (value >= 0 && value < 1) return value
  throw new OptionError('random', `'random' must return a number from 0 up to, but not including, 1; got ${value}.`)
}

function describe(options: RetryOptions): Work {
  const { id = crypto.randomUUID(), name = 'call', category, tenantId, correlationId, traceId, context } = options
  return { kind: 'call', id, name, category, tenantId, correlationId, traceId, context }
}

function beginNow({ deadline, within }: RetryOptions, clock: Clock): History {
  const startedAt = clock.monotonic()
  if (deadline === undefined) return begin(startedAt, within?.deadline)
  const ms = parseDuration(deadline)
  if (ms === undefined)
    throw new OptionError('deadline', `'deadline' must be a duration such as '10s', got ${deadline}.`)
  return begin(startedAt, Math.min(startedAt + ms, within?.deadline ?? Infinity))
}
