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
import { emit, type Work } from '../telemetry/index.js'
import { type Clock, systemClock } from '../time/index.js'
import { type Attempt, RunningAttempt, runBounded } from './attempt.js'
import { type AttemptRecord, OptionError, RetryExhaustedError } from './errors.js'
import type { RetryOptions } from './retry.js'

const ABORTED: Verdict = { class: 'final', code: 'aborted' }

/** A call from its first attempt to its end: what has happened so far, and what the kernel makes of it. */
export class Call {
  readonly clock: Clock
  readonly signal: AbortSignal | undefined
  readonly #policy: Policy
  readonly #options: RetryOptions
  #history: History
  #records: AttemptRecord[] | undefined
  #work: Work | undefined

  constructor(policy: Policy, options: RetryOptions) {
    const { clock = systemClock, within, budget } = options
    this.clock = clock
    this.signal = signalOf(options)
    this.#options = options
    // An inner layer that retried as well would make nine calls out of three attempts.
    this.#policy = within === undefined ? policy : { ...policy, attempts: 1, deferrals: 0 }
    const startedAt = clock.monotonic()
    this.#history = begin(startedAt, deadlineOf(options, startedAt))
    budget?.deposit()
  }

  /** Begins an attempt, or throws what keeps it from beginning. */
  start(): RunningAttempt {
    const { breaker, sink } = this.#options
    const { attempts, deadline, startedAt } = this.#history
    const now = this.#records === undefined ? startedAt : this.clock.monotonic()
    const attempt = new RunningAttempt(attempts + 1, now, deadline)
    if (this.signal?.aborted) throw this.#refused(attempt, 'aborted', this.signal.reason, ABORTED)
    if (breaker !== undefined) {
      attempt.admission = breaker.admit(now)
      if (attempt.admission === undefined) {
        const error = breaker.refusal(now, this.#records?.at(-1)?.failure)
        throw this.#refused(attempt, 'breaker_open', error, { class: 'rate_limited', code: error.code })
      }
    }
    if (sink !== undefined) {
      emit(sink, { type: 'attempt_started', work: this.#describe(), at: this.clock.now(), attempt: attempt.attempt })
    }
    return attempt
  }

  /** Calls the function, for as long as the attempt may run. */
  run<T>(fn: (attempt: Attempt) => T | PromiseLike<T>, attempt: RunningAttempt): T | PromiseLike<T> {
    const limitMs = allowance(this.#policy, this.#history, attempt.startedAt)
    return runBounded(fn, attempt, limitMs, this.clock, this.signal, this.#options.category)
  }

  succeeded(attempt: RunningAttempt): void {
    const { breaker, sink } = this.#options
    if (breaker === undefined && sink === undefined) return
    const now = this.clock.monotonic()
    breaker?.record(attempt.admission, true, now)
    if (sink !== undefined) {
      const durationMs = now - attempt.startedAt
      emit(sink, {
        type: 'attempt_succeeded',
        work: this.#describe(),
        at: this.clock.now(),
        attempt: attempt.attempt,
        durationMs,
      })
    }
  }

  /** The delay before the next attempt; when there is none, throws what the caller gets. */
  failed(attempt: RunningAttempt, failure: unknown): number {
    const { breaker, budget, random, classify: classifier } = this.#options
    const aborted = this.signal?.aborted === true
    const failedAt = this.clock.now()
    const now = this.clock.monotonic()
    const verdict = aborted ? ABORTED : classify(failure, this.#policy, failedAt, classifier)
    if (aborted) breaker?.release(attempt.admission, now)
    else breaker?.record(attempt.admission, verdict.class === 'final', now)

    const drawn = random === undefined ? identityRandom(this.#describe().id, attempt.attempt) : random()
    const decision = decide(this.#policy, this.#history, verdict, {
      now,
      random: drawn,
      aborted,
      budgetEmpty: budget?.isEmpty(now),
    })
    this.#history = advance(this.#history, verdict, decision)
    const durationMs = now - attempt.startedAt
    const record = { attempt: attempt.attempt, failedAt, durationMs, failure, verdict, random: drawn, decision }
    this.#records ??= []
    this.#records.push(record)
    this.#report(attempt, record)

    if (decision.action === 'give_up') throw this.#ending(decision.reason, failure)
    budget?.withdraw()
    return decision.delayMs
  }

  /** What the caller gets in the end: the failure itself if it is final, else all of them. */
  #ending(reason: GiveUpReason, failure: unknown): unknown {
    if (reason === 'aborted') return this.signal?.reason
    if (reason === 'final_error') return failure
    return new RetryExhaustedError(this.#describe().name, reason, this.#records ?? [])
  }

  #refused(attempt: RunningAttempt, reason: 'aborted' | 'breaker_open', failure: unknown, verdict: Verdict): unknown {
    const { sink } = this.#options
    if (sink !== undefined) {
      const about = { work: this.#describe(), at: this.clock.now(), maxAttempts: this.#policy.attempts }
      emit(sink, { type: 'gave_up', ...about, attempt: attempt.attempt, durationMs: 0, failure, verdict, reason })
    }
    return failure
  }

  #report(attempt: RunningAttempt, { failedAt: at, durationMs, failure, verdict, decision }: AttemptRecord): void {
    const { sink } = this.#options
    if (sink === undefined) return
    const about = { work: this.#describe(), at, attempt: attempt.attempt }
    if (attempt.timedOutAfterMs !== undefined)
      emit(sink, { type: 'timed_out', ...about, timeoutMs: attempt.timedOutAfterMs })

    const failed = { ...about, maxAttempts: this.#policy.attempts, durationMs, failure, verdict }
    if (decision.action === 'give_up') emit(sink, { type: 'gave_up', ...failed, reason: decision.reason })
    else {
      const type = decision.action === 'retry' ? 'retry_scheduled' : 'deferred'
      emit(sink, { type, ...failed, delayMs: decision.delayMs, nextAttemptAt: at + decision.delayMs })
    }
  }

  #describe(): Work {
    if (this.#work === undefined) {
      const {
        id = crypto.randomUUID(),
        name = 'call',
        category,
        tenantId,
        correlationId,
        traceId,
        context,
      } = this.#options
      this.#work = { kind: 'call', id, name, category, tenantId, correlationId, traceId, context }
    }
    return this.#work
  }
}

function signalOf({ signal, within }: RetryOptions): AbortSignal | undefined {
  if (within === undefined) return signal
  return signal === undefined ? within.signal : AbortSignal.any([signal, within.signal])
}

function deadlineOf({ deadline, within }: RetryOptions, startedAt: number): number | undefined {
  if (deadline === undefined) return within?.deadline
  const ms = parseDuration(deadline)
  if (ms === undefined) {
    throw new OptionError('deadline', `'deadline' must be a duration such as '10s', got ${String(deadline)}.`)
  }
  return Math.min(startedAt + ms, within?.deadline ?? Infinity)
}
