import type { MissedSlots, SlotRecord } from '../../contract/schedule-store.js'
import type { StoredRecord } from '../../port/record-port.js'
import { runId, type ScheduleState } from './schedule-state.js'

/** The type of the records of schedules, whose place is when they need attention next. */
export const SCHEDULE = 'schedule'

/** The type of the records of slots, whose id is that of their run, and whose place is when they ended. */
export const SLOT = 'slot'

/** The type of a record for each schedule that cannot be fired, whose place is the slot since which it cannot. */
export const BROKEN = 'schedule_broken'

/** The type of a record for each schedule that has missed slots, whose place is when that was found. */
export const MISSED = 'schedule_missed'

/** The type of a record for each slot that ended without being fired: the next firing tells of it. */
export const NEWS = 'slot_news'

/** A slot to tell of, as a record. A slot whose run is cancelled before it begins ends a second time. */
export function newsRow(slot: SlotRecord): StoredRecord {
  const { id, state } = slotRow(slot)
  return { id: `${id}#${slot.end}`, place: slot.at, isOpen: true, state }
}

/** A schedule as a record. One that is over is not open. */
export function scheduleRow(state: ScheduleState): StoredRecord {
  const { name: id, dueAt, changedAt } = state
  return { id, place: dueAt ?? changedAt, isOpen: dueAt !== undefined, state: JSON.stringify(state) }
}

/** A schedule of its record. */
export function scheduleState({ id, state }: StoredRecord): ScheduleState {
  return { ...JSON.parse(state), name: id }
}

/** A slot as a record. */
export function slotRow(slot: SlotRecord): StoredRecord {
  return { id: runId(slot.schedule, slot.slot), place: slot.at, isOpen: false, state: JSON.stringify(slot) }
}

/** A slot of its record. */
export function slotOfRow({ state }: StoredRecord): SlotRecord {
  return JSON.parse(state)
}

/** Missed slots as a record. */
export function missedRow(missed: MissedSlots): StoredRecord {
  return { id: missed.schedule, place: missed.at, isOpen: false, state: JSON.stringify(missed) }
}

/** Missed slots of their record. */
export function missedOfRow({ state }: StoredRecord): MissedSlots {
  return JSON.parse(state)
}
