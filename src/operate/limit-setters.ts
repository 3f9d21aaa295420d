import { canonicalJson } from '../policy/index.js'
import { isObject } from '../policy/internal.js'
import type { LaneLimits } from '../store/index.js'
import type { SharedLimits } from '../store/internal.js'
import { type AuditStore, limitRecord } from '../store/internal.js'
import type { LaneView, PauseView } from './lanes.js'
import { jsonOf } from './stored-json.js'

/** The newest records of the audit log that are searched. */
const SEARCHED = 1000

/** Finds the last operator on record who set some limits for a lane. Limits that code declared have no record. */
export type FindSetter = (
  lane: Pick<LaneView, 'kind' | 'category' | 'key'>,
  limits: LaneLimits | SharedLimits,
) => PauseView | null

/** Reads from the audit log who set limits. */
export async function limitSetters(audit: Pick<AuditStore, 'tail'>): Promise<FindSetter> {
  const { items } = await audit.tail(SEARCHED)
  const records = items
    .filter(json => json.includes('"lanes_limited"'))
    .flatMap(limitsRecordIn)
    .reverse()
  if (records.length === 0) return () => null
  return (lane, limits) => {
    const { kind } = lane
    // Limits that were replaced since, by code or without a record, are not this person's any more.
    const wanted = limitsRecordIn(limitRecord({ kind }, limits, { who: '' }, 0))[0]?.limits
    const isSelected = (lanes: Readonly<Record<string, unknown>>) =>
      lanes.kind === kind &&
      [null, lane.category].includes(textOf(lanes.category)) &&
      [null, lane.key].includes(textOf(lanes.key))
    return records.find(record => record.limits === wanted && isSelected(record.lanes))?.by ?? null
  }
}

interface LimitsRecord {
  readonly lanes: Readonly<Record<string, unknown>>
  readonly limits: string
  readonly by: PauseView
}

function limitsRecordIn(json: string): LimitsRecord[] {
  const record = jsonOf(json)?.value
  if (!isObject(record) || record.event_type !== 'lanes_limited' || !isObject(record.lanes)) return []
  const { lanes, limits, who, why, timestamp } = record
  return [{ lanes, limits: canonicalJson(limits), by: { who: textOf(who), why: textOf(why), at: textOf(timestamp) } }]
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
