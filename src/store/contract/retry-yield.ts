/**
 * How often one more attempt helped: the retries that were made after failures with the same code, on the same day (UTC),
 * and after the same number of attempts. A redriven task starts again at attempt 1. Where it makes an attempt a second
 * time, only the later one counts, so that no task counts twice.
 */
export interface RetryYield {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The category that the task was in: the stage of an item. Empty if there was none. */
  readonly category: string
  /** The code of the failure before, such as `http_502`. */
  readonly code: string
  /** The number of the attempt that followed it: 2 or more. */
  readonly attempt: number
  /** The hash of the policy that asked for it. `policies` has the policy itself. Empty if none is on record. */
  readonly policy: string
  /** How many such attempts have ended in a success or a failure. Deferrals and losses are neither. */
  readonly made: number
  /** How many of them succeeded, were skipped, or let their item advance. */
  readonly succeeded: number
  /** How many of them were the last before their task died, and the task has succeeded since, after a redrive. */
  readonly recovered: number
  /** When the first of the failures before them ended. */
  readonly firstAt: number
  /** When the last of the failures before them ended. */
  readonly lastAt: number
}

/** The days that failures are told apart by, in UTC. */
export const DAY_MS = 86_400_000

/** The outcomes of a retry that helped, as the ledger has them. */
export const HELPED: readonly string[] = ['succeeded', 'skipped', 'advanced']

/** The outcomes of a retry that tell whether it helped. */
export const ANSWERS: readonly string[] = [...HELPED, 'retry', 'dead']
