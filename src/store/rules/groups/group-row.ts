import type { KeptGroup } from './group-record.js'
import { type LifeRow, lifeOf } from './life-row.js'

/** A row of the table `failure_group`, with its figures. */
export interface GroupRow extends LifeRow {
  readonly id: string
  readonly kind: string
  readonly code: string
  readonly error_name: string
  readonly pattern: string
  /** A JSON array. */
  readonly frames: string
  readonly first_seen: number
  readonly last_seen: number
  readonly seen: number
  readonly retrying: number
  readonly dead: number
  /** A JSON array of [hour, seen]. */
  readonly hours: string
}

/** Converts a row to a group. */
export function keptGroup(row: GroupRow): KeptGroup {
  const { id, kind, code, pattern, seen, retrying, dead } = row
  const hours = new Map<number, number>()
  for (const [hour, count] of JSON.parse(row.hours) as [number, number][])
    hours.set(hour, (hours.get(hour) ?? 0) + count)
  const facts = { id, kind, code, errorName: row.error_name, pattern, frames: JSON.parse(row.frames) as string[] }
  const figures = { seen, retrying, dead, firstSeenAt: row.first_seen, lastSeenAt: row.last_seen, hours }
  return { ...facts, ...figures, life: lifeOf(row) }
}
