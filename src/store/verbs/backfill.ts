import type { By } from '../contract/ledger.js'
import type { OpenSlot, SlotSet } from '../contract/operation-store.js'
import type { SlotRecord } from '../contract/schedule-store.js'
import type { Steps, Tx } from '../port/steps.js'
import { SLOT, slotOfRow, slotRow } from '../rules/schedules/schedule-rows.js'
import { runId } from '../rules/schedules/schedule-state.js'
import { cancelTasks } from './runs.js'
import { lockSchedules, tellOf } from './schedule-changes.js'

/**
 * Starts the runs of slots that have not run, for an operation: none if the schedule has become another one. Returns the
 * ids of the new runs.
 */
export function* backfillSlots(
  tx: Tx,
  operation: string,
  { schedule: name, generation }: SlotSet,
  slots: readonly OpenSlot[],
  { who, why }: By,
  now: number,
): Steps<string[]> {
  const [schedule] = yield* lockSchedules(tx, [name])
  if (schedule?.generation !== generation) return []
  const known = yield* tx.records.lock(
    SLOT,
    slots.map(({ slot }) => runId(name, slot)),
  )
  const haveRun = new Set(known.map(slotOfRow).flatMap(({ end, slot }) => (end === 'ran' ? [slot] : [])))
  const reason = `it was backfilled by ${who}${why === undefined ? '' : `: ${why}`}`
  const records = slots
    .filter(({ slot }) => !haveRun.has(slot))
    .map(({ slot, localTime }): SlotRecord => {
      const ran = { end: 'ran', reason, at: now, isCatchUp: true } as const
      return { schedule: name, slot, localTime, generation, operation, ...ran }
    })
  const isNew = yield* tx.tasks.enqueue(
    records.map(({ slot }) => ({ ...schedule.task, id: runId(name, slot) })),
    now,
  )
  const started = records.filter((_, n) => isNew[n])
  yield* tx.records.save(SLOT, started.map(slotRow))
  yield* tellOf(tx, started)
  return started.map(({ slot }) => runId(name, slot))
}

/** Cancels the runs that an operation has started and that have not begun. Looks at a page of the slots on record. */
export function* cancelBackfilled(
  tx: Tx,
  operation: string,
  { schedule: name, from, to }: SlotSet,
  { limit, after }: { readonly limit: number; readonly after: string },
  by: By,
  now: number,
): Steps<{ readonly undone: number; readonly next?: string }> {
  const rows = yield* tx.records.list(SLOT, after === '' ? runId(name, from - 1) : after, limit)
  const page = rows.map(slotOfRow)
  const slots = new Map(
    page
      .filter(slot => slot.schedule === name && slot.operation === operation && slot.end === 'ran')
      .map(slot => [runId(name, slot.slot), slot]),
  )
  const unbegun = (yield* tx.tasks.unfinished([...slots.keys()])).flatMap(({ id, hasBegun }) => (hasBegun ? [] : [id]))
  if (unbegun.length > 0) yield* cancelTasks(tx, unbegun, by, now)
  const skipped = { end: 'skipped', reason: `its backfill was undone by ${by.who} before it began`, at: now } as const
  const changed = unbegun.flatMap(id => slots.get(id) ?? []).map(slot => ({ ...slot, ...skipped }))
  if (changed.length > 0) yield* tx.records.save(SLOT, changed.map(slotRow))
  yield* tellOf(tx, changed)
  const [last, lastRow] = [page.at(-1), rows.at(-1)]
  const isOver = rows.length < limit || last?.schedule !== name || last.slot >= to
  return { undone: changed.length, ...(!isOver && lastRow !== undefined && { next: lastRow.id }) }
}
