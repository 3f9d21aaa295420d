import type { Lane } from './lane.js'
import type { By } from './ledger.js'
import type { Page, PageRequest, TaskFilter } from './list.js'

/**
 * The life of an operation
 *
 *   create ──► planned ──► canary ──► running ──► settling ──► done
 *                 ▲ │         │ │        │ │
 *                 ├─┼─────────┘ │        │ │
 *                 └─┼───────────┼────────┘ │
 *                   └───────────┴──────────┴──► stopped ──continue──► where it was
 *
 * An operation is a bulk act on record. Its set is frozen when it is created, and can only shrink: explicit ids, or the
 * tasks that match a filter and were in their state by a time. It is advanced step by step by whoever has its lease, each
 * step one transaction: it moves members, and notes how far it has come. So a driver that dies loses nothing, and however
 * many drive or ask, each member moves once.
 *
 * - **planned**: it waits until all live workers of its kind run a release with a fix. Its set is frozen when it starts, so
 *   that it has all letters that died before the deploy. It comes back here if an older worker appears before all
 *   members were moved.
 * - **canary**: a few members were moved, and their first counted attempts decide whether the rest follows.
 * - **running**: members are moved, oldest first, with a bounded number of them unanswered at a time.
 * - **settling**: all members were moved, and some of them have not ended.
 * - **stopped**: an operator, or the share of failures, has stopped it. `continue` lets it go on.
 * - **done**: all members that it moved have ended.
 *
 * A member carries the operation in its record from its move on. Each settlement of such a task adds to the operation's
 * tally, so an outcome costs no search.
 *
 * The members of a backfill are slots of a schedule. Its driver finds them by the timetable, and the step starts their runs in
 * the transaction that notes them.
 *
 * The members of some acts are outside of the store: documents of a user's collection, messages of a failed queue. No
 * transaction spans both, so the driver acts first, and then notes it with its step. A driver that dies in between has moved
 * members that are not counted; the next one finds what is left. It is done with its last member.
 */

/** The acts on tasks that wait: make them due, give them another time, or another priority. */
export const ARRANGING_ACTS = ['promote', 'reschedule', 'prioritize'] as const

/** An act on tasks that wait. */
export type ArrangingAct = (typeof ARRANGING_ACTS)[number]

/** The acts on tasks. */
export const TASK_ACTS = ['redrive', 'discard', 'cancel', ...ARRANGING_ACTS] as const

/** An act on tasks. */
export type TaskAct = (typeof TASK_ACTS)[number]

/** The acts on members outside of the store: a reset of documents, a requeue of failed messages. */
export const OUTSIDE_ACTS = ['reset', 'requeue'] as const

/** An act on members outside of the store. */
export type OutsideAct = (typeof OUTSIDE_ACTS)[number]

/** The acts that can be operations: a backfill starts the runs of slots that have not run. */
export const OPERATION_ACTS = [...TASK_ACTS, 'backfill', ...OUTSIDE_ACTS] as const

/** The act of an operation on its members. */
export type OperationAct = TaskAct | 'backfill' | OutsideAct

export const OPERATION_STATUSES = ['planned', 'canary', 'running', 'settling', 'stopped', 'done'] as const

/** Where an operation is in its life. */
export type OperationStatus = (typeof OPERATION_STATUSES)[number]

/**
 * Members that are tasks. With a filter: those that were dead by `until`, on the store's clock, and are since; for a
 * cancellation and the acts on tasks that wait, those that were submitted by then and have not ended.
 */
export type TaskSet =
  | { readonly ids: readonly string[] }
  | { readonly filter: Omit<TaskFilter, 'status'>; readonly until: number }

/** The failed documents of a collection that were last attempted by a time: those of a reset. */
export interface DocumentSet {
  /** The name of the collection. */
  readonly collection: string
  /** The address of its database, without credentials: no other one is touched. */
  readonly source: string
  /** Only documents whose last error contains this text. */
  readonly error?: string
  /** Only documents without an attempt after this time, on the clock of their database. */
  readonly until: number
  /** How many documents of the collection had failed when it was created. */
  readonly count: number
}

/** The oldest messages of a failed queue: those of a requeue. */
export interface MessageSet {
  /** The name of the failed queue. */
  readonly queue: string
  /** The address of its broker, without credentials: no other one is touched. */
  readonly bus: string
  /** Where the messages go: into one queue, or to every queue that takes a type. */
  readonly route:
    | { readonly queue: string; readonly type: string | null }
    | { readonly queue: null; readonly type: string }
  /** How many messages it may take: no more than were in the failed queue when it was created. */
  readonly count: number
}

/** Members outside of the store. */
export type OutsideSet = DocumentSet | MessageSet

/** The slots of a schedule within a time: those of a backfill. */
export interface SlotSet {
  /** The name of the schedule. */
  readonly schedule: string
  /** Its generation when the operation was created: another one has other slots. */
  readonly generation: number
  /** The first moment. */
  readonly from: number
  /** The first moment after it. */
  readonly to: number
  /** How many of its slots had not run when it was created. */
  readonly count: number
}

/** The members of an operation. */
export type OperationSet = TaskSet | SlotSet | OutsideSet

/** A release with a fix. Semantic versions are compared; any other release is later unless it is one of those before. */
export interface FixedRelease {
  /** The first release with the fix. */
  readonly release: string
  /** The other releases that live workers reported when the fix was announced. */
  readonly before: readonly string[]
}

/**
 * A change of payloads as data: a JSON Merge Patch (RFC 7396) of an object, or its JSON text, whose numbers are kept as they
 * are written: a JavaScript number is exact up to 2^53. `null` removes a field, an object is merged, and anything else
 * replaces what was there.
 */
export type PayloadPatch = Readonly<Record<string, unknown>> | string

/** How an operation goes about it. An absent field means no such bound. */
export interface OperationSettings {
  /**
   * Applied to the payload of each member as it moves, in the same transaction. The original stays on record, in the
   * `redriven` row of the ledger. Items of runs keep their payload, and are left alone. Only a redrive has it. On record it
   * is JSON text.
   */
  readonly patch?: PayloadPatch
  /**
   * Forgets this step of each member as it moves, and the steps that were first recorded after it: they run again. Only a
   * redrive has it. An undo does not bring them back.
   */
  readonly fromStep?: string
  /** The same, of this step alone. */
  readonly forgetStep?: string
  /** What happens to a dead letter whose unique key another task has by now. Only a redrive has it. Default: `skip`. */
  readonly twin?: TwinRule
  /**
   * Start when all live workers of the kind report this release or a later one, and go on only while they do. The filter
   * must name the kind. Only a redrive has it.
   */
  readonly fixedIn?: FixedRelease
  /** When the members are due. Only a reschedule has it, and must. */
  readonly runAt?: number
  /** The priority of the members. Only a prioritize has it, and must. */
  readonly priority?: number
  /** How many of its runs may be unfinished at a time. Only a backfill has it. */
  readonly atOnce?: number
  /** How many members go first. Their first counted attempts decide whether the rest follows. */
  readonly canary?: number
  /**
   * Stop when a larger share of the members fails, from 0 to 1; with 1, never. Needs attempts, so only a redrive has it.
   * Default: 0.2 with a canary, else 0.5.
   */
  readonly stopAbove?: number
  /** The maximum number of members moved per second. */
  readonly perSecond?: number
  /** The maximum number of members moved in all, oldest first. */
  readonly limit?: number
  /** How long to wait for the answers of a canary. Default: 10 minutes. */
  readonly answerWithinMs?: number
}

/**
 * What a redrive does to a dead letter whose unique key another task has by now, its twin: it leaves the letter alone, cancels
 * the twin, or lets the letter wait for the twin to end.
 */
export type TwinRule = 'skip' | 'replace' | 'after'

export const TWIN_RULES: readonly TwinRule[] = ['skip', 'replace', 'after']

/** An operation to be created. */
export interface NewOperation {
  /** The act that it carries out. */
  readonly act: OperationAct
  /** To which members: tasks for an act on tasks, a `DocumentSet` for a reset, a `MessageSet` for a requeue. */
  readonly set: OperationSet
  /** Who asked for it, and why. A discard needs a reason. */
  readonly by: By
  /** How it goes about it. */
  readonly settings?: OperationSettings
}

/** How far an operation has come, as its driver notes it with every step. */
export interface OperationProgress {
  /** The place in the set after the last member that was looked at. */
  readonly after?: string
  /** Whether the whole set was looked at. */
  readonly isRead: boolean
  /** The members of the canary, with those that replaced others. */
  readonly canary: readonly string[]
  /** When the first of them was moved. */
  readonly canarySince?: number
  /** How many members may be unanswered at a time. */
  readonly window: number
  /** The answers up to which the share of failures was judged. */
  readonly judged: { readonly passed: number; readonly failed: number }
  /** The runs that a bounded backfill has started and that had not ended when its driver last looked. */
  readonly runs?: readonly string[]
  /** Members that were left alone, by reason. */
  readonly refused: Readonly<Record<string, number>>
  /** Documents of the collection that were looked at and are not in the set: another error, or a later attempt. */
  readonly unmatched?: number
  /** When the last members were moved, and how many of them: a rate counts from there. */
  readonly lastMove?: { readonly at: number; readonly count: number }
}

/** The outcomes of the members that were moved. */
export interface OperationTally {
  /** Members whose first counted attempt after the move did not fail. */
  readonly passed: number
  /** Members whose first counted attempt after the move failed. */
  readonly failed: number
  /** Members that ended without a counted attempt, such as those that were cancelled. */
  readonly unanswered: number
  /** Members that have succeeded. */
  readonly succeeded: number
  /** Members that were skipped. */
  readonly skipped: number
  /** Members that are dead again. */
  readonly dead: number
  /** Members that were cancelled. */
  readonly cancelled: number
}

/** An operation as it is on record. Times are milliseconds on the store's clock. */
export interface OperationRecord extends NewOperation {
  /** Generated. */
  readonly id: string
  readonly settings: OperationSettings
  /** Where it is in its life. */
  readonly status: OperationStatus
  /** Why it was stopped. */
  readonly reason: string | undefined
  /** The person who stopped it; `undefined` if it stopped by itself. */
  readonly stoppedBy: By | undefined
  /** How far its driver has come. */
  readonly progress: OperationProgress
  /** How many members it has moved. */
  readonly moved: number
  /** How many of those were put back by an undo. */
  readonly undone: number
  /** The person who put members back last. */
  readonly undoneBy: By | undefined
  /** Their outcomes. */
  readonly tally: OperationTally
  /** Who advances it, and until when its lease runs. */
  readonly driver: { readonly name: string; readonly until: number } | undefined
  /** When it was created. */
  readonly createdAt: number
  /** When its record last changed. */
  readonly changedAt: number
  /** When it was done; `undefined` until then. */
  readonly endedAt: number | undefined
}

/** A member that has not been moved. */
export interface OperationMember extends Lane {
  /** The id of the task. */
  readonly id: string
  /** When it reached its present state: for a dead letter, its death. */
  readonly changedAt: number
  /** Whether its lane is ordered: then all members of the lane move together. */
  readonly isOrdered: boolean
  /** Whether its lane is paused. */
  readonly isPaused: boolean
  /** Where it stands; `undefined` if it is dead. */
  readonly standing: LivingStanding | undefined
  /** Of a dead member: the task that has its unique key by now. */
  readonly twin?: string | undefined
}

/** Where a task stands that has not ended: it runs, it waits and is due, or it waits for its time. */
export type LivingStanding = 'running' | 'due' | 'not_due'

/** The number of members of a set that agree in these fields. */
export interface SurveyRow {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Their category, or the stage of a pipeline. */
  readonly category: string
  /** The code of the last verdict; `undefined` if there is none. */
  readonly errorCode: string | undefined
  /** Whether their lane is ordered. */
  readonly isOrdered: boolean
  /** Whether their lane is paused. */
  readonly isPaused: boolean
  /** Where they stand; `undefined` if they are dead. */
  readonly standing: LivingStanding | undefined
  /** Whether other tasks have their unique keys by now, if they are dead. */
  readonly hasTwin: boolean
  /** How old their state is. */
  readonly age: Age
  /** How many there are. */
  readonly count: number
}

/** The age of a state: less than an hour, a day, a week; or more. */
export const AGES = ['hour', 'day', 'week', 'older'] as const

/** One of these ages. */
export type Age = (typeof AGES)[number]

/** The number of members that are dead again and agree in these fields. */
export interface DeathsRow {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The code of the last verdict; `undefined` if there is none. */
  readonly errorCode: string | undefined
  /** The failure group; `undefined` if they are in none. */
  readonly group: string | undefined
  /** How many there are. */
  readonly count: number
}

/** One step of an operation. */
export interface OperationStep {
  /** The lease runs this long from now. */
  readonly leaseMs: number
  /** Members to move. */
  readonly move?: readonly string[]
  /** Slots whose runs are to be started. */
  readonly slots?: readonly OpenSlot[]
  /** The patched payloads of members whose payloads are encoded. One that has changed since is left alone. */
  readonly edits?: readonly PayloadEdit[]
  /** How many members outside of the store were moved since the last step. */
  readonly movedOutside?: number
  /** Where it is in its life after the step. */
  readonly status: OperationStatus
  /** Why it stops. */
  readonly reason?: string | undefined
  /** How far it has come. */
  readonly progress: OperationProgress
}

/** A slot that has not run, with the local time that it is for. */
export interface OpenSlot {
  readonly slot: number
  readonly localTime: string
}

/** The replacement of a payload. */
export interface PayloadEdit {
  readonly id: string
  readonly before: string
  readonly after: string
}

/** The operation of which a driver has the lease. */
export interface TakenOperation {
  /** Its record. */
  readonly operation: OperationRecord
  /** Issued with the lease. Each step has to present it. */
  readonly token: string
}

/**
 * Keeps operations. Each verb is one transaction. A verb on an operation that does not exist is an
 * `OperationNotFoundError`.
 */
export interface OperationStore {
  /** Creates an operation, on record in the audit log. */
  create(operation: NewOperation): Promise<OperationRecord>
  /** An operation; `undefined` if there is none with that id. */
  get(id: string): Promise<OperationRecord | undefined>
  /** A page of the operations, newest first; with `isOpen`, only those that are neither stopped nor done. */
  list(filter: { readonly isOpen?: boolean }, page: PageRequest): Promise<Page<OperationRecord>>
  /** Takes the lease of an operation; `undefined` if another driver has it, or the operation is stopped or done. */
  take(id: string, driver: string, leaseMs: number): Promise<TakenOperation | undefined>
  /**
   * Makes a step: moves members that are still in the set, and saves the progress. Renews the lease. Returns the ids that
   * it moved; `undefined` if the lease is another's by now, or the operation was stopped: then nothing has changed. An
   * operation with members outside of the store that was stopped stays so, and notes what its driver has moved meanwhile.
   */
  step(
    id: string,
    token: string,
    step: OperationStep,
  ): Promise<{ readonly operation: OperationRecord; readonly moved: readonly string[] } | undefined>
  /** Gives the lease back, so that another driver can take it at once. */
  release(id: string, token: string): Promise<void>
  /** Stops an operation, or lets a stopped one go on. Appends an audit record. */
  change(id: string, change: 'stop' | 'continue', by: By): Promise<OperationRecord>
  /**
   * A page of the members that have not been moved: the oldest state first, or in the order of the ids given. With `lane`,
   * only those of that lane. Tasks to be cancelled come in no particular order, and leave the set with their cancellation.
   * Those of the acts on tasks that wait come in the order of their ids; such a page may be empty, and not the last.
   * Members outside of the store are none of its business, and slots are found by a timetable: the page is empty.
   */
  members(id: string, page: PageRequest & { readonly lane?: Lane }): Promise<Page<OperationMember>>
  /** Counts the members that a set has now, in one pass. */
  survey(act: OperationAct, set: TaskSet): Promise<readonly SurveyRow[]>
  /** The members that are dead again, by kind, code of the last verdict and failure group. */
  deaths(id: string): Promise<readonly DeathsRow[]>
  /**
   * Puts members back as they were before the move, with their payload: redriven ones that wait and were neither run nor edited since, and
   * discarded ones that are still kept. Tasks that wait get their time and their priority back, unless they have run since or their
   * lane is ordered. Items of runs that were dead stay, since their run counts them. Runs of a backfill that have not begun are
   * cancelled. Looks at a page of the members
   * that were moved. The operation must be stopped or done; a cancellation, a reset and a requeue cannot be undone. Each member that was put back
   * has an `undone` row in its ledger, and each page that put some back a record in the audit log.
   */
  undo(id: string, page: PageRequest, by: By): Promise<{ readonly undone: number; readonly next?: string }>
}

/** The acts as they are counted: `3 moved`. */
export const MOVED = {
  redrive: 'moved',
  discard: 'discarded',
  cancel: 'cancelled',
  promote: 'promoted',
  reschedule: 'rescheduled',
  prioritize: 'prioritized',
  backfill: 'started',
  reset: 'reset',
  requeue: 'requeued',
} as const satisfies Readonly<Record<OperationAct, string>>
