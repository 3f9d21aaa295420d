import { failureText } from '../../../telemetry/index.js'
import type { By } from '../../contract/ledger.js'
import type { MissedSlots, SlotRecord, Timetable, Timetables } from '../../contract/schedule-store.js'
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
    const problem = { why: failureText(failure), since: before.problem?.since ?? before.dueAt ?? at.now }
    return { state: { ...state, dueAt: at.now + TRY_AGAIN_MS, problem }, slots: [], tasks: [], cancel: [] }
  }
}

/** Starts a run beside the slots. Its own slot is the present moment, to the millisecond. */
export function startedNow(
  { state: before, timetable }: { readonly state: ScheduleState; readonly timetable: Timetable },
  { who, why }: By,
  { now, unfinished }: AtChange,
): ScheduleChange & { readonly id: string } {
  const { name: schedule, generation, task } = before
  // A whole second may be a slot of the schedule.
  const slot = now % 1000 === 0 ? now + 1 : now
  const id = runId(schedule, slot)
  const reason = `it was started by ${who}${why === undefined ? '' : `: ${why}`}`
  const localTime = timetable.localTime(slot)
  return {
    id,
    state: { ...before, runs: [...before.runs.filter(run => unfinished.has(run)), id] },
    slots: [{ schedule, slot, localTime, end: 'ran', reason, at: now, generation }],
    tasks: [{ ...task, id }],
    cancel: [],
  }
}

function isMissed({ end }: SlotRecord): boolean {
  return end === 'missed'
}

/** The slots of a schedule that its firing has missed; `undefined` if it has missed none. They are in their order. */
export function missedSlots({ state, slots }: ScheduleChange, now: number): MissedSlots | undefined {
  const missed = slots.filter(isMissed)
  const [first, last] = [missed[0], missed.at(-1)]
  if (first === undefined || last === undefined) return undefined
  const { slot, until = slot, reason = '' } = last
  return { schedule: state.name, at: now, from: first.slot, to: until, reason }
}

/** The audit record of missed slots, as JSON. */
export function missedRecord({ schedule, at, from, to, reason }: MissedSlots): string {
  const [first, last] = [new Date(from).toISOString(), new Date(to).toISOString()]
  return scheduleRecord(
    { event_type: 'slots_missed', schedule, from: first, to: last, reason },
    { who: 'scheduler' },
    at,
  )
}
