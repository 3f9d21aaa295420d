import {
  advance,
  begin,
  classify,
  decide,
  type GiveUpReason,
  type History,
  identityRandom,
  type Policy,
  parseDuration,
  TimeoutError,
  type Verdict,
} from '../policy/index.js'
import { allowance, DURATION, refusal, wrongOption } from '../policy/internal.js'
import type { GaveUp, Work, WorkEvent } from '../telemetry/index.js'
import { type AttemptEvent, emit } from '../telemetry/internal.js'

import {
  awaited,
  type Clock,
  type Sleeper,
  soon,
  systemClock,
  type Timer,
  unwatchAbort,
  watchAbort,
} from '../time/index.js'
import { type Attempt, RunningAttempt } from './attempt.js'
import type { Admission } from './circuit-breaker.js'
import { type AttemptRecord, RetryExhaustedError } from './errors.js'
import type { RetryOptions } from './retry.js'

/** The part of an event that is its own, besides the call that it is about. */
type Details<E = WorkEvent> = E extends AttemptEvent ? Omit<E, 'work' | 'at' | 'attempt' | 'maxAttempts'> : never

const PROCESS_ID = /* @__PURE__ */ crypto.randomUUID()
let calls = 0
let block = ''

/**
 * The identity of a call that was given none: a random one would take longer than the call. Calls are numbered in blocks
 * of a thousand, because V8 keeps the text of each new number for a while, and moving those around in memory costs as much
 * as the event that the identity is for.
 */
function nextId(): string {
  const number = calls++ % 1000
  if (number === 0) block = `${PROCESS_ID}-${calls}-`
  return block + number
}

/** The records of a call that has not failed. */
const NONE: readonly AttemptRecord[] = []

/** The options of a call that was given none. */
export const NO_OPTIONS: RetryOptions = {}

/** The history of a call that nothing times: reading the clock costs a third of a call that succeeds at once. */
const UNTIMED = begin(0)

/**
 * A call from its first attempt to its end. It is in one of three states:
 *
 * - **running**: `attempt` is under way, and the timer is armed if its time is limited. Entered at the start and after
 *   each wait; left when the function settles, when the time is up, or when the caller aborts (unless the signal is
 *   `awaited`: then the function alone ends it).
 * - **waiting**: there is no `attempt`, and the timer is armed for the next one. Entered when the kernel says to retry
 *   or to defer; left when the next attempt is due, or when the caller aborts.
 * - **ended**: the promise is settled, no timer is armed, and the caller's signal is no longer watched.
 *
 * A function that settles late belongs to an attempt that is not the current one, and is ignored. A sink may abort the call,
 * so each event is emitted only after the state that it describes has been entered.
 *
 * Callbacks drive it rather than an async function, which would double the memory of a waiting call.
 */
export class Call<T> implements Sleeper {
  readonly #fn: (attempt: Attempt) => T | PromiseLike<T>
  readonly #options: RetryOptions
  readonly #clock: Clock
  readonly #policy: Policy
  /** The work that events are about; `undefined` when nobody is told of them. */
  readonly #work: Work | undefined
  /**
   * Settles the promise either way, since one that is resolved with a rejected promise is rejected: so what waits holds
   * one function, not two. Gone when the call has ended.
   */
  #settle: ((outcome: T | Promise<never>) => void) | undefined
  /** The record before the attempt that is under way, or was the last. */
  #history: History
  /** The record of the last failure. */
  #last: AttemptRecord | undefined
  /** The records of the failures before it: a list of its own, so that a call that failed once holds none. */
  #earlier = NONE
  #attempt: RunningAttempt | undefined
  /** When the attempt started, on the clock's monotonic scale; 0 when nothing about the call is timed. */
  #startedAt = 0
  /** The admission that the circuit breaker gave the attempt. */
  #admission: Admission | undefined
  #timer: Timer | undefined

  constructor(
    fn: (attempt: Attempt) => T | PromiseLike<T>,
    policy: Policy,
    options: RetryOptions,
    settle: (outcome: T | Promise<never>) => void,
  ) {
    const { clock = systemClock, within, budget, sink } = options
    this.#fn = fn
    this.#options = options
    this.#settle = settle
    this.#clock = clock
    // An inner layer that retried as well would make nine calls out of three attempts.
    this.#policy = within ? { ...policy, attempts: 1, deferrals: 0 } : policy
    this.#work = sink && describe(options)
    this.#history = isLimited(policy, options) ? beginNow(options, clock) : UNTIMED
    budget?.deposit()
    this.#watch(watchAbort)
  }

  /**
   * The time of the current state is up, or the caller has aborted: cuts the attempt short that is under way, or begins
   * the next one, unless something keeps it from beginning. The function is called right here, since each frame more in
   * the stack of an error costs as much as classifying it.
   */
  wake(): void {
    if (!this.#settle) return
    const by = this.#abortedBy()
    if (this.#attempt) return this.#cutShort(this.#attempt, by)
    const { breaker } = this.#options
    const last = this.#last
    // Not when it failed: what waits should hold no more than it must.
    if (last) this.#history = advance(last.history, last.verdict, last.decision)
    const history = this.#history
    if (by) return this.#refuse('aborted', by.reason)
    const now = last && isLimited(this.#policy, this.#options) ? this.#clock.monotonic() : history.startedAt
    const late = refusal(this.#policy, history, now)
    if (late) return this.#refuse(late, this.#exhausted(late))
    this.#startedAt = now
    this.#admission = breaker?.admit(now)
    if (breaker && this.#admission === undefined)
      return this.#refuse('breaker_open', breaker.refusal(now, last?.failure))
    const attempt = new RunningAttempt(history.attempts + 1, history.deadline)
    this.#attempt = attempt
    this.#tellStart(history)
    if (!this.#settle) return
    const limitMs = allowance(this.#policy, history, now)
    if (limitMs < Infinity) this.#timer = this.#clock.setTimer(this, limitMs)
    // Called as a function, not as a method of this call, which costs more in the stack of an error.
    const fn = this.#fn
    try {
      Promise.resolve(fn(attempt)).then(
        result => attempt === this.#attempt && this.#succeeded(result),
        failure => attempt === this.#attempt && this.failed(failure),
      )
    } catch (failure) {
      if (attempt === this.#attempt) this.failed(failure)
    }
  }

  /** Aborts the attempt and fails it, unless the signal is `awaited`: then its function ends it. Nested calls inherit that. */
  #cutShort(running: RunningAttempt, by: AbortSignal | undefined): void {
    const reason: unknown = by ? by.reason : this.#timedOut()
    const isAwaited = by && awaited.has(by) && awaited.add(running.signal)
    running.abort(reason)
    if (!isAwaited && running === this.#attempt) this.failed(reason)
  }

  #succeeded(result: T): void {
    this.#end(result)
    const { breaker, sink } = this.#options
    const work = this.#work
    if (!breaker && !work) return
    const now = this.#clock.monotonic()
    breaker?.record(this.#admission, true, now)
    if (!sink || !work) return
    const at = this.#clock.now()
    const attempt = this.#history.attempts + 1
    const maxAttempts = this.#policy.attempts
    emit(sink, { work, at, attempt, maxAttempts, type: 'attempt_succeeded', durationMs: now - this.#startedAt })
  }

  #timedOut(): Error {
    const timeoutMs = Math.round(allowance(this.#policy, this.#history, this.#startedAt))
    this.#tell({ type: 'timed_out', timeoutMs })
    const { category } = this.#options
    const code = category && `TIMEOUT_${category}`
    return new TimeoutError(`The attempt timed out after ${timeoutMs} ms.`, { code, timeoutMs })
  }

  /** The attempt has failed. */
  failed(failure: unknown): void {
    try {
      const policy = this.#policy
      const history = this.#history
      const { breaker, budget, classify: classifier } = this.#options
      const attempt = history.attempts + 1
      const now = this.#clock.monotonic()
      const failedAt = this.#clock.now()
      const aborted = this.#abortedBy() !== undefined
      const verdict: Verdict = aborted
        ? { class: 'final', code: 'aborted' }
        : classify(failure, policy, failedAt, classifier)
      breaker?.failed(this.#admission, verdict, now)
      const random = this.#draw(attempt)
      const budgetEmpty = budget?.isEmpty(now)
      const decision = decide(policy, history, verdict, { now, random, aborted, budgetEmpty })
      if (!this.#settle) return

      const record = { attempt, failedAt, failure, verdict, history, now, random, aborted, budgetEmpty, decision }
      this.#earlier = this.#records()
      this.#last = record

      const durationMs = now - this.#startedAt
      if (decision.action === 'give_up') {
        const { reason } = decision
        this.#end(aborted ? Promise.reject(failure) : this.#rejection(record, reason))
        this.#tell({ type: 'gave_up', durationMs, failure, verdict, reason })
      } else {
        const { delayMs } = decision
        budget?.withdraw()
        this.#leave()
        if (delayMs === 0) soon(this)
        else this.#timer = this.#clock.setTimer(this, delayMs)
        const type = decision.action === 'defer' ? 'deferred' : 'retry_scheduled'
        if (this.#work) this.#tell({ type, durationMs, failure, verdict, delayMs, nextAttemptAt: failedAt + delayMs })
      }
    } catch (mistake) {
      // Code of the caller's own, such as `random`, threw. The call must not hang for that.
      this.#end(Promise.reject(mistake))
    }
  }

  /**
   * Rejects with the error of a call that was given up. Made two turns later, that has the frames of whoever awaits the
   * call on its stack: the engine follows promises to the functions that await them, and by then the call's own follows
   * this one.
   */
  #rejection({ attempt, failure }: AttemptRecord, reason: GiveUpReason): Promise<never> {
    return Promise.resolve()
      .then()
      .then(() => {
        if (reason !== 'final_error') throw this.#exhausted(reason)
        // A later attempt begins in a timer, so its failure has to be given those frames: all but this function's own.
        try {
          if (attempt > 1 && failure instanceof Error) failure.stack += String(new Error().stack).replace(/.*\n?.*/, '')
        } catch {
          // It is frozen, or a proxy.
        }
        throw failure
      })
  }

  /** Ends the call without a further attempt having been made. */
  #refuse(reason: GaveUp['reason'], failure: unknown): void {
    const verdict: Verdict = { class: reason === 'breaker_open' ? 'rate_limited' : 'final', code: reason }
    this.#end(Promise.reject(failure))
    this.#tell({ type: 'gave_up', durationMs: 0, failure, verdict, reason }, this.#last?.attempt ?? 0)
  }

  #exhausted(reason: GiveUpReason): RetryExhaustedError {
    const { name = 'call', category } = this.#options
    return new RetryExhaustedError(name, category, reason, this.#policy, this.#records())
  }

  #records(): readonly AttemptRecord[] {
    return this.#last ? withRecord(this.#earlier, this.#last) : NONE
  }

  #end(outcome: T | Promise<never>): void {
    this.#leave()
    this.#watch(unwatchAbort)
    this.#settle?.(outcome)
    this.#settle = undefined
  }

  /** Written out, as the event of a success is: the spread below takes longer than the rest of an event. */
  #tellStart({ attempts, deferrals }: History): void {
    const { sink } = this.#options
    const work = this.#work
    if (!sink || !work) return
    const at = this.#clock.now()
    const maxAttempts = this.#policy.attempts
    emit(sink, { work, at, attempt: attempts + 1, maxAttempts, type: 'attempt_started', deferrals })
  }

  #tell(details: Details, attempt = this.#history.attempts + 1): void {
    const { sink } = this.#options
    const work = this.#work
    if (sink && work)
      emit(sink, { work, at: this.#clock.now(), attempt, maxAttempts: this.#policy.attempts, ...details })
  }

  /** Leaves the current state: the attempt is no longer the current one, and its timer is not armed. */
  #leave(): void {
    if (this.#timer) this.#clock.clearTimer(this.#timer)
    this.#timer = undefined
    this.#attempt = undefined
  }

  #watch(change: typeof watchAbort): void {
    const { signal, within } = this.#options
    if (signal) change(signal, this)
    if (within) change(within.signal, this)
  }

  /** Not `AbortSignal.any`: on Node 20 it forgets a signal that nobody else holds, such as `AbortSignal.timeout()`. */
  #abortedBy(): AbortSignal | undefined {
    const { signal, within } = this.#options
    if (signal?.aborted) return signal
    return within?.signal.aborted ? within.signal : undefined
  }

  /** Where the delay falls within its jitter: derived from the call's identity, if it has one. On record either way. */
  #draw(attempt: number): number {
    const { random } = this.#options
    const { id } = this.#work ?? this.#options
    if (!random) return id === undefined ? Math.random() : identityRandom(id, attempt)
    const drawn = random()
    if (drawn >= 0 && drawn < 1) return drawn
    throw wrongOption('random', 'a number from 0 to below 1', drawn)
  }
}

/** The number of records that a call keeps, so that it may go on for ever. */
const MAX_RECORDS = 100

/**
 * Adds a record to the latest ones. Copied one by one: `concat` takes ten times as long, more than all else that a failure
 * costs, and `push` or a spread leave room for 16 more.
 */
function withRecord(records: readonly AttemptRecord[], record: AttemptRecord): readonly AttemptRecord[] {
  const length = Math.min(records.length + 1, MAX_RECORDS)
  const latest = new Array<AttemptRecord>(length)
  for (let i = 1; i < length; i++) latest[length - 1 - i] = records[records.length - i] as AttemptRecord
  latest[length - 1] = record
  return latest
}

/** Whether the call has limits or options. */
export function isLimited(policy: Policy, options: RetryOptions): boolean {
  return (policy.timeout ?? policy.ttl ?? options) !== NO_OPTIONS
}

function describe(options: RetryOptions): Work {
  const { id = nextId(), name = 'call', category, tenantId, correlationId, traceId, context } = options
  return { kind: 'call', id, name, category, tenantId, correlationId, traceId, context }
}

function beginNow({ deadline, within }: RetryOptions, clock: Clock): History {
  const startedAt = clock.monotonic()
  if (deadline === undefined) return begin(startedAt, within?.deadline)
  const ms = parseDuration(deadline)
  if (ms === undefined) throw wrongOption('deadline', DURATION, deadline)
  return begin(startedAt, Math.min(startedAt + ms, within?.deadline ?? Infinity))
}
