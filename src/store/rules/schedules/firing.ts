import { failureText } from '../../../telemetry/index.js'
import type { By } from '../../contract/ledger.js'
import type { SlotRecord, Timetables } from '../../contract/schedule-store.js'
import { checkNewTask } from '../check.js'
import { scheduleRecord } from '../operator-record.js'
import type { AtChange } from './change-schedule.js'
import { fire } from './fire.js'
import { runId, type ScheduleChange, type ScheduleState } from './schedule-state.js'

/** A schedule that cannot be fired here is tried again after this time: another process may be able to. */
const TRY_AGAIN_MS = 60_000

/** Fires a schedule. One that cannot be fired must not stop the others: it says why, and is tried again. */
export function tryToFire(before: ScheduleState, timetables: Timetables, at: AtChange): ScheduleChange {
  const { problem: _, ...state } = before
  try {
    const change = fire(state, timetables(state), at)
    change.tasks.forEach(checkNewTask)
    return change
  } catch (failure) {
    const problem = failureText(failure)
    return { state: { ...state, dueAt: at.now + TRY_AGAIN_MS, problem }, slots: [], tasks: [], cancel: [] }
  }
}

/** Starts a run beside the slots. Its own slot is the present moment, to the millisecond. */
export function startedNow(
  before: ScheduleState,
  { who, why }: By,
  { now, unfinished }: AtChange,
): ScheduleChange & { readonly id: string } {
  const { name: schedule, generation, task } = before
  // A whole second may be a slot of the schedule.
  const slot = now % 1000 === 0 ? now + 1 : now
  const id = runId(schedule, slot)
  const reason = `it was started by ${who}${why === undefined ? '' : `: ${why}`}`
  const localTime = new Date(slot).toISOString()
  return {
    id,
    state: { ...before, runs: [...before.runs.filter(run => unfinished.has(run)), id] },
    slots: [{ schedule, slot, localTime, end: 'ran', reason, at: now, generation }],
    tasks: [{ ...task, id }],
    cancel: [],
  }
}

/** Whether nothing fired a slot in time. */
export function isMissed({ end }: SlotRecord): boolean {
  return end === 'missed'
}

/** The record of missed slots of one schedule, as JSON. */
export function missedRecord(schedule: string, missed: readonly SlotRecord[], now: number): string {
  const times = missed.flatMap(({ slot, until = slot }) => [slot, until])
  const [from, to] = [Math.min(...times), Math.max(...times)].map(at => new Date(at).toISOString())
  const reason = missed.at(-1)?.reason ?? ''
  return scheduleRecord(
    { event_type: 'slots_missed', schedule, from: from ?? '', to: to ?? '', reason },
    { who: 'scheduler' },
    now,
  )
}
