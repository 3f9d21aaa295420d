import type { GroupRecord } from '../../contract/group-store.js'
import { lifeNow } from './life.js'
import { type LifeRow, lifeOf } from './life-row.js'
import { trendOf } from './trend.js'

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

/** Converts a row to a record. */
export function groupRecord(row: GroupRow, now: number): GroupRecord {
  const hours = new Map<number, number>()
  for (const [hour, seen] of JSON.parse(row.hours) as [number, number][]) hours.set(hour, (hours.get(hour) ?? 0) + seen)
  const trend = trendOf(hours, now)
  return {
    id: row.id,
    kind: row.kind,
    code: row.code,
    errorName: row.error_name,
    pattern: row.pattern,
    frames: JSON.parse(row.frames) as string[],
    seen: row.seen,
    retrying: row.retrying,
    dead: row.dead,
    firstSeenAt: row.first_seen,
    lastSeenAt: row.last_seen,
    trend,
    life: lifeNow(lifeOf(row), { seen: row.seen, trend }, now),
  }
}
