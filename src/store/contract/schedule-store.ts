/** What follows when slots were not fired in time: none of them runs, the last one does, or all of them do. */
export type CatchUp = 'skip' | 'last' | 'all'

/**
 * What follows when a slot is due and the run of an earlier one has not finished: both run, the slot ends as overlapped,
 * it waits for the earlier run, or it cancels the earlier run and waits for its end.
 */
export type Overlap = 'allow' | 'skip' | 'after' | 'replace'

/** How a slot ended. Each has a reason, except one that ran in time. */
export type SlotEnd = 'ran' | 'skipped' | 'missed' | 'overlapped'

/** When a schedule is due: as a cron expression says, or at each multiple of an interval. */
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
}
