import { identityRandom } from '../../../policy/index.js'
import type { ScheduleRecord, ScheduleSpec, SlotEnd, SlotRecord, Timetable } from '../../contract/schedule-store.js'
import type { NewTask } from '../../contract/task.js'

/** A schedule as it is kept. Its cursor only grows, so a clock that is set back fires nothing twice. */
export interface ScheduleState extends ScheduleRecord {
  /** The last declaration by code. Changes at run time hold until code declares something else. */
  readonly declared?: Declaration | undefined
}

/** Code that declares a schedule. */
export interface Declaration {
  /** The hash of what it declares. */
  readonly hash: string
  /** The version of the application. */
  readonly release?: string | undefined
  readonly at: number
  readonly workers: readonly string[]
}

/** The state of a schedule after a rule, and what has to be written with it. */
export interface ScheduleChange {
  readonly state: ScheduleState
  readonly slots: readonly SlotRecord[]
  /** The tasks of the slots that run, whose ids tell. */
  readonly tasks: readonly NewTask[]
  /** Runs to be cancelled. Those that have not begun change the end of their slots. */
  readonly cancel: readonly string[]
  /** What their slots end as. */
  readonly cancelled?: Pick<SlotRecord, 'end' | 'reason'> | undefined
}

/** The state of a run, as far as its schedule needs to know. */
export interface RunState {
  readonly isRunning: boolean
  /** Whether its first attempt has begun. */
  readonly hasBegun: boolean
}

/** Runs that have not finished, by id. */
export type UnfinishedRuns = ReadonlyMap<string, RunState>

/** The id of a slot's run: the same slot has the same one on every worker, so it cannot run twice. */
export function runId(name: string, slot: number): string {
  return `${name}@${new Date(slot).toISOString().replace('.000Z', 'Z')}`
}

/** Whether an id may be that of a run. A task of the caller's own may have such an id too. */
export function isRunId(id: string): boolean {
  return /@\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(id)
}

/** How long after its slot a schedule fires: the same for all of its slots. */
export function spreadOf({ name, spreadMs }: ScheduleSpec): number {
  return Math.floor(identityRandom(name, 0) * spreadMs)
}

/** When the next slot after the cursor is due. */
export function nextDue(state: Omit<ScheduleState, 'dueAt'>, timetable: Timetable): number | undefined {
  const next = timetable.next(state.cursor)
  return next === undefined ? undefined : next + spreadOf(state)
}

/** The record of a slot. */
export function slotRecord(
  { name, generation }: Pick<ScheduleState, 'name' | 'generation'>,
  timetable: Timetable,
  slot: number,
  { end, reason }: { readonly end: SlotEnd; readonly reason?: string | undefined },
  at: number,
): SlotRecord {
  return {
    schedule: name,
    slot,
    localTime: timetable.localTime(slot),
    generation,
    at,
    end,
    ...(reason !== undefined && { reason }),
  }
}
