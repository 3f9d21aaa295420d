import type { By } from './ledger.js'
import type { Page, PageRequest } from './list.js'

/**
 * What follows when slots were not fired in time: none of them runs, the last one does, or all of them do.
 *
 * @inline
 */
export type CatchUp = 'skip' | 'last' | 'all'

/**
 * What follows when a slot is due and the run of an earlier one has not finished: both run, the slot ends as overlapped,
 * it waits for the earlier run, or it cancels the earlier run and waits for its end.
 *
 * @inline
 */
export type Overlap = 'allow' | 'skip' | 'after' | 'replace'

/** How a slot ended. Each has a reason, except one that ran in time. */
export type SlotEnd = 'ran' | 'skipped' | 'missed' | 'overlapped'

/** When a schedule is due: as a cron expression says, or at each multiple of an interval. @inline */
export type ScheduleTimes = { readonly cron: string } | { readonly everyMs: number }

/** The task that a schedule enqueues. */
export interface ScheduledTask {
  /** Its kind. */
  readonly kind: string
  /** The category of its lane. */
  readonly category?: string | undefined
  /** The key of its lane. */
  readonly key?: string | undefined
  /** Higher goes first. */
  readonly priority?: number | undefined
  /** JSON text. */
  readonly payload: string
}

/** A schedule, as plain data. Times are milliseconds since the epoch. */
export interface ScheduleSpec {
  /** Its name: letters, digits and `_.:-`. */
  readonly name: string
  /** When it is due. */
  readonly times: ScheduleTimes
  /** The IANA name of a time zone. */
  readonly timeZone: string
  /** No slot is before this time. An interval counts from here, or else from the epoch. */
  readonly startAt?: number | undefined
  /** Every slot is before this time. */
  readonly endAt?: number | undefined
  /** The task that it enqueues for each slot. */
  readonly task: ScheduledTask
  /** What follows when slots were missed. */
  readonly catchUp: CatchUp
  /** A slot that is later than this is missed. */
  readonly catchUpWithinMs: number
  /** What follows when an earlier run has not finished. */
  readonly overlap: Overlap
  /** The runs of schedules with the same slots are spread over this time. */
  readonly spreadMs: number
}

/** The slots of a schedule, as instants. Stores are given it, since they parse no cron expressions. */
export interface Timetable {
  /** The first slot after an instant; `undefined` if there is none. */
  next(after: number): number | undefined
  /** The last slot before an instant; `undefined` if there is none. */
  previous(before: number): number | undefined
  /**
   * The local time that a slot is for, such as `2027-03-28T02:30:00`. It may be one that the clocks of that day never
   * show, because they were set forward over it.
   */
  localTime(slot: number): string
}

/** The end of a slot, on record. */
export interface SlotRecord {
  /** The name of the schedule. */
  readonly schedule: string
  /** The slot, in milliseconds since the epoch. */
  readonly slot: number
  /** The local time that it is for. */
  readonly localTime: string
  /** The last slot, where this stands for all from `slot` on: too many were due for a record of each. */
  readonly until?: number | undefined
  readonly end: SlotEnd
  /** Why, in words. */
  readonly reason?: string | undefined
  /** When it ended as this. */
  readonly at: number
  /** Whether it ran late, to catch up. */
  readonly isCatchUp?: boolean | undefined
  /** The generation of the schedule. */
  readonly generation: number
  /** The operation that backfilled it. */
  readonly operation?: string | undefined
}

/** A schedule as it is on record. */
export interface ScheduleRecord extends ScheduleSpec {
  /** Counts the changes of its times, its time zone and its task. */
  readonly generation: number
  /** Slots up to here have ended. */
  readonly cursor: number
  /** When it needs attention next; `undefined` once it is over. */
  readonly dueAt: number | undefined
  /** A slot that waits for an earlier run to end. */
  readonly waiting?: number | undefined
  /** The ids of runs that had not finished when it was last fired. */
  readonly runs: readonly string[]
  /** Who paused it, when and why. */
  readonly paused?: (By & { readonly at: number }) | undefined
  /**
   * The last code that declared it, and the workers that have it in their code: those that were alive when one of them
   * started. Absent for a schedule that was set at run time alone.
   */
  readonly declared?:
    | { readonly release?: string | undefined; readonly at: number; readonly workers: readonly string[] }
    | undefined
  /** Why it cannot be fired, such as a time zone that a version of Node does not know, and the slot since which it cannot. */
  readonly problem?: { readonly why: string; readonly since: number } | undefined
  /** When it was created. */
  readonly createdAt: number
  /** When somebody last changed it. */
  readonly changedAt: number
}

/** Makes the timetable of a schedule. Throws for one that cannot be. */
export type Timetables = (spec: ScheduleSpec) => Timetable

/** The effect of a declaration: `kept` means that a newer release had declared the schedule otherwise. */
export type Declared = 'created' | 'changed' | 'unchanged' | 'kept'

/** Slots of a schedule that nothing fired in time, and that are not caught up. */
export interface MissedSlots {
  readonly schedule: string
  /** When this was found. */
  readonly at: number
  /** The first and the last of them. */
  readonly from: number
  readonly to: number
  /** Why the last one was not caught up, in words. */
  readonly reason: string
}

/** The slots that a firing has ended, and those that it tells of. */
export interface FiredSlots {
  readonly slots: readonly SlotRecord[]
  /** Slots that have ended otherwise: by a change of their schedule, a run that somebody started, a backfill. Each is told once. */
  readonly news: readonly SlotRecord[]
  /** Whether more schedules may be due. */
  readonly hasMore: boolean
}

/** The answer to a run that somebody asked for. */
export type StartedRun =
  | { readonly id: string }
  /** The run that has not finished, where runs must not overlap. */
  | { readonly unfinished: string }

/** Keeps schedules, and fires their slots. Verbs that depend on the slots are given the timetables. */
export interface ScheduleStore {
  /** Code declares schedules, whenever it starts. Answers for each of them. */
  declare(
    specs: readonly ScheduleSpec[],
    by: { readonly worker: string; readonly release?: string | undefined },
    timetables: Timetables,
  ): Promise<readonly Declared[]>
  /** Creates or changes a schedule at run time. That holds until code declares something else than before. */
  set(spec: ScheduleSpec, by: By, timetables: Timetables): Promise<ScheduleRecord>
  get(name: string): Promise<ScheduleRecord | undefined>
  /** A page of the schedules, by name. */
  list(page: PageRequest): Promise<Page<ScheduleRecord>>
  /** Pauses a schedule: its slots are skipped. Returns whether there is such a schedule. */
  pause(name: string, by: By): Promise<boolean>
  /** Ends a pause. Slots that were due in it are not caught up. */
  resume(name: string, by: By, timetables: Timetables): Promise<boolean>
  /** Forgets a schedule. Its runs and the record of its slots stay. */
  remove(name: string, by: By): Promise<boolean>
  /** Starts a run now, beside the slots; `undefined` if there is no such schedule. */
  run(name: string, by: By, timetables: Timetables): Promise<StartedRun | undefined>
  /** Ends the slots that are due of at most this number of schedules. Any number of processes may fire at a time. */
  fire(limit: number, timetables: Timetables): Promise<FiredSlots>
  /** The store's clock, when a schedule needs attention next, and whether the next firing has slots to tell of. */
  next(): Promise<{ readonly now: number; readonly dueAt: number | undefined; readonly hasNews: boolean }>
  /** How long ago the oldest slot was due that nobody has fired, also where a schedule cannot be fired; 0 if there is none. */
  lagMs(): Promise<number>
  /** The schedules that have missed slots, last found first: the last ones of each of them. */
  missed(limit: number): Promise<readonly MissedSlots[]>
  /** The slot of a run; `undefined` if the task is none. */
  slotOf(run: string): Promise<SlotRecord | undefined>
  /** The slots on record after a time, oldest first. */
  slots(name: string, after: number, limit: number): Promise<readonly SlotRecord[]>
  /** The last slots on record, or the last ones before a time, oldest first. */
  lastSlots(name: string, limit: number, before?: number): Promise<readonly SlotRecord[]>
  /** Forgets slots that ended so long ago, a batch at a time. */
  prune(keepMs: number, limit: number): Promise<void>
}
