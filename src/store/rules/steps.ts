import type { GiveUpReason, Verdict } from '../../policy/index.js'
import type { StepRow } from '../contract/step.js'

/** A step of a task, with its attempts. */
export interface StepRecord extends StepState {
  /** One of a kind in its task. */
  readonly name: string
  /** Whether it has succeeded. Then it does not run again. */
  readonly isDone: boolean
  /** JSON text; `undefined` if it returned nothing, or has not succeeded. */
  readonly result: string | undefined
}

/** The part of a step that stores keep as JSON text. */
export interface StepState {
  /** When the attempts of its task began to count. If the task was redriven since, the counters begin anew. */
  readonly since: number
  /** When it first began, since then: its time to live runs from here. */
  readonly startedAt: number
  /** Failed attempts. */
  readonly attempts: number
  /** Waits that a rate limit asked for. They cost no attempt. */
  readonly deferrals: number
  /** The last delay that the backoff asked for. */
  readonly previousDelayMs?: number | undefined
  /** When its next attempt is due. */
  readonly nextAt?: number | undefined
  /** Why it was given up. */
  readonly gaveUp?: GiveUpReason | undefined
  /** Its last attempts, oldest first. */
  readonly ledger: readonly StepAttempt[]
}

/** An attempt at a step, as its record keeps it. */
export interface StepAttempt {
  /** Its number, from 1. It begins anew with a redrive of the task. */
  readonly attempt: number
  readonly startedAt: number
  readonly endedAt: number
  /** The worker that made it. */
  readonly worker: string
  readonly outcome: 'succeeded' | 'retry' | 'deferred' | 'gave_up'
  /** The delay until the next attempt. */
  readonly delayMs?: number | undefined
  /** The verdict on its failure. */
  readonly verdict?: Verdict | undefined
  /** Name and message of its failure, bounded and redacted. */
  readonly error?: string | undefined
  /** The random number that placed the delay within its jitter. */
  readonly random?: number | undefined
  /** The hash of the policy that decided. */
  readonly policy?: string | undefined
}

/** A longer record has the last ones of these. */
const MAX_ATTEMPTS = 20

/** The record of a step. */
export function stepRecord({ name, isDone, result, state }: StepRow): StepRecord {
  return { name, isDone, result, ...(JSON.parse(state) as StepState) }
}

/** A ledger with another attempt. Only the last attempts are kept. */
export function withAttempt(ledger: readonly StepAttempt[], attempt: StepAttempt): readonly StepAttempt[] {
  return [...ledger, attempt].slice(-MAX_ATTEMPTS)
}
