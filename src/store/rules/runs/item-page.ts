import type { Page, PageRequest } from '../../contract/list.js'
import type { TaskRecord } from '../../contract/task.js'
import type { ItemRow } from '../../port/run-port.js'
import { numberPlace } from '../cursor.js'
import { itemId, itemRange } from './items.js'
import type { RunState } from './run-state.js'

/** The most items that a page looks at, however few match. */
const MAX_SCANNED = 5000

/** The items that a page looks at, by position and by id. The first id and the last position are not part of it. */
export interface ItemScan {
  readonly from: number
  readonly end: number
  readonly afterId: string
  readonly endId: string
}

/** Where to look for a page of a run's items. */
export function itemScan(state: RunState, { limit, after }: PageRequest): ItemScan {
  const from = after === undefined ? 0 : numberPlace(after)
  const end = Math.min(from + Math.max(limit, MAX_SCANNED), state.position)
  const afterId = from === 0 ? itemRange(state)[0] : itemId(state.id, from - 1)
  return { from, end, afterId, endId: itemId(state.id, end) }
}

/** The page of the rows found, in the order of the source. It may be short, or empty, though another one follows. */
export function itemPage(
  state: RunState,
  { from, end }: ItemScan,
  rows: readonly ItemRow[],
  limit: number,
): Page<TaskRecord> {
  const last = rows.at(-1)
  const isFull = rows.length === limit
  const next = !isFull ? end : last === undefined ? from : (last.position ?? positionOf(last.record.id)) + 1
  const items = rows.map(({ record }) => record)
  return next < state.position ? { items, next: String(next) } : { items }
}

function positionOf(id: string): number {
  return Number(id.slice(id.indexOf(':') + 1))
}
