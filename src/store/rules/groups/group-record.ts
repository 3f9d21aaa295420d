import type { GroupRecord } from '../../contract/group-store.js'
import { lifeNow } from './life.js'
import { trendOf } from './trend.js'

/** A group as it is kept: with its failures by hour, and its life as it was last written. */
export interface KeptGroup extends Omit<GroupRecord, 'trend'> {
  /** Its failed attempts by hour, at least those of the last 24 hours. */
  readonly hours: ReadonlyMap<number, number>
}

/** The record of a group at a time. */
export function groupRecord({ hours, life, ...group }: KeptGroup, now: number): GroupRecord {
  const trend = trendOf(hours, now)
  return { ...group, trend, life: lifeNow(life, { seen: group.seen, trend }, now) }
}
