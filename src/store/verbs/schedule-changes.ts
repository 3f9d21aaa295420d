import type { SlotRecord } from '../contract/schedule-store.js'
import type { Steps, Tx } from '../port/steps.js'
import { missedRecord, missedSlots } from '../rules/schedules/firing.js'
import {
  BROKEN,
  MISSED,
  missedRow,
  NEWS,
  newsRow,
  SCHEDULE,
  SLOT,
  scheduleRow,
  scheduleState,
  slotOfRow,
  slotRow,
} from '../rules/schedules/schedule-rows.js'
import {
  runId,
  type ScheduleChange,
  type ScheduleState,
  type UnfinishedRuns,
} from '../rules/schedules/schedule-state.js'
import { cancelTasks } from './runs.js'

/** Schedules by their names, locked. */
export function* lockSchedules(tx: Tx, names: readonly string[]): Steps<ScheduleState[]> {
  return (yield* tx.records.lock(SCHEDULE, names)).map(scheduleState)
}

/** The runs of schedules that have not finished. */
export function* unfinishedOf(tx: Tx, states: readonly ScheduleState[]): Steps<UnfinishedRuns> {
  const ids = states.flatMap(({ runs }) => runs)
  return new Map(ids.length === 0 ? [] : (yield* tx.tasks.unfinished(ids)).map(task => [task.id, task]))
}

/** Leaves it to the next firing to tell of slots that have ended: only workers have somebody to tell. */
export function* tellOf(tx: Tx, slots: readonly SlotRecord[]): Steps<void> {
  if (slots.length > 0) yield* tx.records.save(NEWS, slots.map(newsRow))
}

/** Writes what follows from changes of schedules. Returns the slots that have ended, those of cancelled runs included. */
export function* saveChanges(tx: Tx, changes: readonly ScheduleChange[], now: number): Steps<SlotRecord[]> {
  const again: SlotRecord[] = []
  for (const { state, cancel, cancelled } of changes) {
    if (cancel.length > 0) again.push(...(yield* cancelRuns(tx, state.name, cancel, cancelled, now)))
  }
  const tasks = changes.flatMap(change => change.tasks)
  const isNew = tasks.length === 0 ? [] : yield* tx.tasks.enqueue(tasks, now)
  const taken = tasks.flatMap(({ id = '' }, n) => (isNew[n] ? [] : [id]))
  // A slot that was backfilled has ended: its record stays, and no other task has its id.
  const ended = changes.flatMap(change => change.slots)
  const asked = ended
    .map(slot => runId(slot.schedule, slot.slot))
    .filter((id, n) => ended[n]?.end !== 'ran' || taken.includes(id))
  const known = new Set(asked.length === 0 ? [] : (yield* tx.records.lock(SLOT, asked)).map(({ id }) => id))
  const slots = ended.flatMap((slot): SlotRecord[] => {
    const id = runId(slot.schedule, slot.slot)
    if (slot.until === undefined && known.has(id)) return []
    if (slot.end !== 'ran' || !taken.includes(id)) return [slot]
    return [{ ...slot, end: 'skipped', reason: 'a task with the id of its run was there already' }]
  })
  if (slots.length > 0) yield* tx.records.save(SLOT, slots.map(slotRow))
  yield* tx.records.save(
    SCHEDULE,
    changes.map(({ state }) => scheduleRow(state)),
  )
  return [...again, ...slots]
}

/** Notes which schedules cannot be fired, which can again, and which have missed slots: for metrics and messages. */
export function* noteTrouble(
  tx: Tx,
  before: readonly ScheduleState[],
  changes: readonly ScheduleChange[],
  now: number,
): Steps<void> {
  const broken = changes.flatMap(({ state: { name, problem } }) => (problem ? [{ name, ...problem }] : []))
  const fired = new Set(changes.flatMap(({ state: { name, problem } }) => (problem ? [] : [name])))
  const mended = before.flatMap(({ name, problem }) => (problem && fired.has(name) ? [name] : []))
  const missed = changes.flatMap(change => missedSlots(change, now) ?? [])
  const rows = broken.map(({ name, since }) => ({ id: name, place: since, isOpen: true, state: '{}' }))
  if (rows.length > 0) yield* tx.records.save(BROKEN, rows)
  if (mended.length > 0) yield* tx.records.drop(BROKEN, mended)
  if (missed.length > 0) yield* tx.records.save(MISSED, missed.map(missedRow))
  for (const slots of missed) yield* tx.audit.append(missedRecord(slots), now)
}

/** Cancels runs of a schedule. The slots of those that had not begun end otherwise then. Returns those. */
function* cancelRuns(
  tx: Tx,
  name: string,
  ids: readonly string[],
  cancelled: ScheduleChange['cancelled'],
  now: number,
): Steps<SlotRecord[]> {
  const before = yield* tx.tasks.unfinished(ids)
  yield* cancelTasks(tx, ids, { who: `schedule ${name}`, why: cancelled?.reason ?? 'the schedule was changed' }, now)
  const unbegun = before.flatMap(({ id, hasBegun }) => (hasBegun ? [] : [id]))
  if (unbegun.length === 0 || cancelled === undefined) return []
  const slots = (yield* tx.records.lock(SLOT, unbegun)).map(row => ({ ...slotOfRow(row), ...cancelled, at: now }))
  if (slots.length > 0) yield* tx.records.save(SLOT, slots.map(slotRow))
  return slots
}
