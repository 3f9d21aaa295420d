import type { Lane, SharedLimits } from '../contract/lane.js'
import { type LaneRules, type PauseRuleRow, pauseRule, selectionOf } from '../contract/lane-rule.js'
import { laneLimits } from '../rules/rows.js'
import type { Connection } from './driver.js'

/** Whether a rule selects any lane with these fields. */
const SELECTS = /* sql */ `
  (:kind IS NULL OR kind = :kind)
  AND (:category IS NULL OR category IS NULL OR category = :category)
  AND (:key IS NULL OR key IS NULL OR key = :key)`

/** Reads the rules that select any lane with these fields. */
export function laneRules(db: Connection, { kind = null, category = null, key = null }: NullableLane): LaneRules {
  const read = db.transaction(() => ({
    pauses: db
      .prepare<object, PauseRuleRow>(/* sql */ `SELECT * FROM pause_rule WHERE ${SELECTS} ORDER BY id`)
      .all({ kind, category, key }),
    own: db
      .prepare<object, LimitRow>(/* sql */ `SELECT * FROM limit_rule WHERE ${SELECTS} ORDER BY id`)
      .all({ kind, category, key }),
    shared: db
      .prepare<object, SharedRow>(/* sql */ `
        SELECT kind, category, NULL AS key, limits FROM shared_limit
        WHERE ifnull(quota, '') = '' AND (:kind IS NULL OR kind = :kind) AND (:category IS NULL OR category IS NULL OR category = :category)
        ORDER BY id`)
      .all({ kind, category }),
  }))
  const { pauses, own, shared } = read()
  return {
    pauses: pauses.map(pauseRule),
    limits: [
      ...own.map(row => ({ ...selectionOf(row), limits: laneLimits(row) })),
      ...shared.map(row => ({ ...selectionOf(row), limits: JSON.parse(row.limits) as SharedLimits })),
    ],
  }
}

type NullableLane = { readonly [Field in keyof Lane]?: Lane[Field] | null }

interface LimitRow {
  readonly kind: string
  readonly category: string | null
  readonly key: string | null
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly ordered: number
  readonly blocking: number
}

interface SharedRow extends Pick<LimitRow, 'kind' | 'category' | 'key'> {
  readonly limits: string
}
