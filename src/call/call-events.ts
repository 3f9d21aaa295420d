import type { Verdict } from '../policy/index.js'
import { emit, type GaveUp, type Sink, type Work } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import type { RunningAttempt } from './attempt.js'
import type { AttemptRecord } from './errors.js'

/** Tells a sink what happens to a call. */
export class CallEvents {
  constructor(
    private readonly sink: Sink,
    private readonly clock: Clock,
    readonly work: Work,
    private readonly maxAttempts: number,
  ) {}

  started({ attempt }: RunningAttempt): void {
    emit(this.sink, { type: 'attempt_started', work: this.work, at: this.clock.now(), attempt })
  }

  succeeded({ attempt, startedAt }: RunningAttempt, now: number): void {
    const durationMs = now - startedAt
    emit(this.sink, { type: 'attempt_succeeded', work: this.work, at: this.clock.now(), attempt, durationMs })
  }

  timedOut({ attempt, limitMs: timeoutMs }: RunningAttempt): void {
    emit(this.sink, { type: 'timed_out', work: this.work, at: this.clock.now(), attempt, timeoutMs })
  }

  failed({ startedAt }: RunningAttempt, record: AttemptRecord, now: number): void {
    const { attempt, failedAt: at, failure, verdict, decision } = record
    const { work, maxAttempts } = this
    const about = { work, at, attempt, maxAttempts, durationMs: now - startedAt, failure, verdict }
    if (decision.action === 'give_up') return emit(this.sink, { ...about, type: 'gave_up', reason: decision.reason })
    const type = decision.action === 'retry' ? 'retry_scheduled' : 'deferred'
    emit(this.sink, { ...about, type, delayMs: decision.delayMs, nextAttemptAt: at + decision.delayMs })
  }

  /** The call ends without a further attempt having been made. */
  refused(attempt: number, reason: GaveUp['reason'], failure: unknown, verdict: Verdict): void {
    const { work, maxAttempts } = this
    emit(this.sink, {
      type: 'gave_up',
      work,
      at: this.clock.now(),
      attempt,
      maxAttempts,
      durationMs: 0,
      failure,
      verdict,
      reason,
    })
  }
}
