import { exactValue } from '../policy/internal.js'
import type { StepAttempt, StepRecord } from '../store/internal.js'
import { isoOrNull, shown } from './task-view.js'

/** A step of a task as plain JSON. */
export interface StepView {
  /** Its name, one of a kind in its task. */
  readonly name: string
  /**
   * `done`: its result is on record. `waiting`: it has failed and is tried again. `given_up`: its task died of it, or went on
   * without it. `forgotten`: a redrive lets it run again.
   */
  readonly status: 'done' | 'waiting' | 'given_up' | 'forgotten'
  /** Failed attempts since its task was enqueued or last redriven. */
  readonly attempts: number
  /** Waits that a rate limit asked for, since then. */
  readonly deferrals: number
  /** When its next attempt is due. */
  readonly nextAttemptAt: string | null
  /** Why it was given up. */
  readonly reason: StepRecord['gaveUp'] | null
  /** The value that it returned. */
  readonly result: unknown
  /** Its last 20 attempts, oldest first. A redrive begins anew with number 1. */
  readonly history: readonly StepAttemptView[]
}

/** An attempt at a step as plain JSON. */
export interface StepAttemptView {
  /** Its number. */
  readonly attempt: number
  /** When it began. */
  readonly startedAt: string
  /** When it ended. */
  readonly endedAt: string
  /** The worker that made it. */
  readonly worker: string
  /** How it ended. */
  readonly outcome: StepAttempt['outcome']
  /** The delay until the next attempt. */
  readonly delayMs: number | null
  /** The verdict on its failure. */
  readonly verdict: NonNullable<StepAttempt['verdict']> | null
  /** Name and message of its failure. */
  readonly error: string | null
  /** The hash of the policy that decided. */
  readonly policy: string | null
}

/** The view of a step. */
export function stepView(step: StepRecord): StepView {
  const { name, attempts, deferrals, nextAt, gaveUp, result, ledger } = step
  return {
    name,
    status: statusOf(step),
    attempts,
    deferrals,
    nextAttemptAt: isoOrNull(nextAt),
    reason: gaveUp ?? null,
    result: result === undefined ? null : exactValue(result),
    history: ledger.map(attemptView),
  }
}

function statusOf({ isDone, gaveUp, ledger }: StepRecord): StepView['status'] {
  if (isDone) return 'done'
  if (gaveUp !== undefined) return 'given_up'
  return ledger.at(-1)?.outcome === 'succeeded' ? 'forgotten' : 'waiting'
}

function attemptView(attempt: StepAttempt): StepAttemptView {
  const { startedAt, endedAt, delayMs, verdict, error, policy } = attempt
  return {
    attempt: attempt.attempt,
    startedAt: new Date(startedAt).toISOString(),
    endedAt: new Date(endedAt).toISOString(),
    worker: attempt.worker,
    outcome: attempt.outcome,
    delayMs: delayMs ?? null,
    verdict: verdict ?? null,
    error: shown(error),
    policy: policy ?? null,
  }
}
