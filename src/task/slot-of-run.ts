import { loadTimetables } from '../engine/internal.js'
import type { ClaimedTask, ScheduleStore, SlotRecord } from '../store/internal.js'

/**
 * The slot that a task is the run of; `undefined` if it is none. The record of the slot may have been pruned: a dead letter
 * may be redriven long after. Then the schedule still knows.
 */
export async function slotOfRun(
  schedules: Pick<ScheduleStore, 'slotOf' | 'get'>,
  { id, kind }: Pick<ClaimedTask, 'id' | 'kind'>,
): Promise<SlotRecord | undefined> {
  const known = await schedules.slotOf(id)
  if (known !== undefined) return known
  const separator = id.lastIndexOf('@')
  const name = id.slice(0, separator)
  const schedule = await schedules.get(name)
  if (schedule?.task.kind !== kind) return undefined
  const table = (await loadTimetables())(schedule)
  const slot = Date.parse(id.slice(separator + 1))
  if (table.next(slot - 1) !== slot) return undefined
  const localTime = table.localTime(slot)
  return { schedule: name, slot, localTime, end: 'ran', at: slot, generation: schedule.generation }
}
