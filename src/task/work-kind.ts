import type { ActiveAttempt, Failed, Refused, Returned } from '../attempt/index.js'
import type { Policy } from '../policy/index.js'
import type { ClaimedTask, Outcome } from '../store/index.js'
import type { Work } from '../telemetry/index.js'

/** A kind of work that an engine runs: tasks of one kind, or the events of one queue that wait in a store. */
export interface WorkKind {
  /** The kind of its tasks in the store. */
  readonly kind: string
  readonly policy: Policy
  /** The hash under which the ledger names the policy. */
  readonly policyHash: string
  /** The work as sinks see it. */
  describe(task: ClaimedTask): Work
  /** Runs the handler. */
  call(task: ClaimedTask, attempt: ActiveAttempt): unknown
  /** Says what the handler's result asks for. */
  returned(result: unknown): Returned
  /**
   * Takes a dead letter to a home outside the store, and resolves with the outcome that remains to be settled. Until then
   * the worker still has the task. Rejects if the letter can never be delivered, or when the signal aborts.
   */
  readonly bury?: ((task: ClaimedTask, end: Failed | Refused, signal: AbortSignal) => Promise<Outcome>) | undefined
}
