import type { Verdict } from '../../policy/index.js'
import type { AttemptNotes } from './attempt-notes.js'
import type { FailureGroup } from './group-store.js'

/** An attempt as the ledger keeps it: enough to recompute its decision. */
export interface AttemptEntry {
  /** Its number, from 1. */
  readonly attempt: number
  /** When it began. */
  readonly startedAt: number
  /** When it ended. */
  readonly endedAt: number
  /** The worker that made it. */
  readonly worker: string
  /** The verdict on its failure. Absent if it did not fail. */
  readonly verdict?: Verdict
  /** Name and message of the failure, bounded and redacted. */
  readonly error?: string
  /** Where the code failed: a line for each frame, bounded and redacted. Only bugs have it where they fail as before. */
  readonly stack?: string
  /** The group of the failure, which is made when it is first seen. Counts only beside a verdict. */
  readonly group?: FailureGroup
  /** The random number that placed the delay within its jitter. */
  readonly random?: number
  /** The hash of the policy that decided. `policies` has the policy itself. */
  readonly policy?: string
  /** The version of the pipeline that ran it. */
  readonly version?: string
  /** The call of a batch stage that it was part of. */
  readonly call?: string
  /**
   * The id of its trace: 32 hexadecimal digits. A task that succeeds with nothing else on record is in the trace that
   * enqueued it. Its settlement leaves this out, so that it costs nothing, and its ledger has it all the same.
   */
  readonly trace?: string
  /** The version of the application, as its worker reported it. */
  readonly release?: string | undefined
  /** Its progress, its last lines, and the step that ended it. Attempts that succeed have none as a rule. */
  readonly notes?: AttemptNotes | undefined
}

/**
 * A row of the ledger. Rows never change, except that a `lost` row is completed by the decision on it. A `redriven`,
 * `discarded`, `completed`, `failed`, `undone`, `edited`, `promoted`, `rescheduled`, `prioritized` or `cancel_requested` row is
 * not an attempt: its number is 0, its `worker` is the person who asked and its `reason` is why. So is the `cancelled` row of a task that was
 * cancelled while it waited. A task that was running has a `cancel_requested` row, and then the row of its attempt.
 */
export interface LedgerRow extends Omit<AttemptEntry, 'group'> {
  /** Counts all rows of the task, from 1. */
  readonly sequence: number
  /** The category that the task was in: the stage of an item. Absent where it had none. */
  readonly category?: string | undefined
  /** The group of its failure. */
  readonly group?: string | undefined
  /** The outcome for the task. */
  readonly outcome:
    | 'succeeded'
    | 'skipped'
    | 'advanced'
    | 'retry'
    | 'deferred'
    | 'later'
    | 'dead'
    | 'cancelled'
    | 'lost'
    | 'redriven'
    | 'discarded'
    | 'completed'
    | 'failed'
    | 'undone'
    | 'edited'
    | 'promoted'
    | 'rescheduled'
    | 'prioritized'
    | 'cancel_requested'
  /** The delay until the next attempt, if one follows. */
  readonly delayMs: number | undefined
  /** Why the task is dead, was skipped or was redriven. */
  readonly reason: string | undefined
  /** The state that an operator's act replaced, so that it can be undone: with the rows of all acts that can be. */
  readonly before?: Before | undefined
}

/**
 * The part of a task that an operator's act replaces. An edit replaces the payload; a redrive the counters and errors and, with a
 * patch, the payload; an act on a task that waits its time and priority.
 */
export interface Before {
  /** Failed attempts. */
  readonly attempts?: number | undefined
  /** Waits that a rate limit asked for. */
  readonly deferrals?: number | undefined
  /** When its attempts and its time to live began to count. */
  readonly startedAt?: number | undefined
  /** For a dead letter, its death: its retention counts from there. */
  readonly changedAt?: number | undefined
  /** The last delay that the backoff asked for. */
  readonly previousDelayMs?: number | undefined
  /** The class of the last verdict. */
  readonly errorClass?: Verdict['class'] | undefined
  /** The code of the last verdict. */
  readonly errorCode?: string | undefined
  /** Name and message of the last failure. */
  readonly errorMessage?: string | undefined
  /** Why it was dead. */
  readonly reason?: string | undefined
  /** JSON text. */
  readonly payload?: string | undefined
  /** When a task that waits was due. */
  readonly nextAttemptAt?: number | undefined
  /** The priority of a task that waits. */
  readonly priority?: number | undefined
  /** The operation that changed a task that waits. */
  readonly operation?: string | undefined
}

/** The person who asked, and why: for the record. */
export interface By {
  /** The person, or the program. */
  readonly who: string
  /** The reason. */
  readonly why?: string | undefined
}
