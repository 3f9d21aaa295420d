import type { Lane, SharedLimits } from '../contract/lane.js'
import { type LaneRules, type PauseRuleRow, pauseRule, selectionOf } from '../contract/lane-rule.js'
import { laneLimits } from '../rules/rows.js'
import { answerOf, type Sql } from './database.js'
import { stored } from './text.js'

/** Whether a rule selects any lane with these fields. */
const SELECTS = /* sql */ `
  ($1::text IS NULL OR rule.kind = $1)
  AND ($2::text IS NULL OR coalesce(rule.category = $2, true))
  AND ($3::text IS NULL OR coalesce(rule.key = $3, true))`

const LANE_RULES = /* sql */ `
  SELECT json_build_object(
    'pauses', (
      SELECT coalesce(json_agg(rule ORDER BY rule.id), '[]') FROM redrive.pause_rule AS rule WHERE ${SELECTS}
    ),
    'own', (
      SELECT coalesce(json_agg(rule ORDER BY rule.id), '[]') FROM redrive.limit_rule AS rule WHERE ${SELECTS}
    ),
    'shared', (
      SELECT coalesce(json_agg(rule ORDER BY rule.id), '[]') FROM (
        SELECT id, kind, category, NULL AS key, limits FROM redrive.shared_limit WHERE coalesce(quota, '') = ''
      ) AS rule
      WHERE ${SELECTS}
    )
  )::text AS answer`

/** Reads the rules that select any lane with these fields. */
export async function laneRules(sql: Sql, { kind, category, key }: Partial<Lane>): Promise<LaneRules> {
  const values = [kind ?? null, category ?? null, key ?? null]
  const answer = answerOf(await sql.query(LANE_RULES, values))
  const { pauses, own, shared } = JSON.parse(String(answer)) as Answer
  return {
    pauses: pauses.map(({ who, why, ...row }) => pauseRule({ ...row, who: text(who), why: text(why) })),
    limits: [
      ...own.map(row => ({ ...selectionOf(row), limits: laneLimits(row) })),
      ...shared.map(row => ({ ...selectionOf(row), limits: JSON.parse(row.limits) as SharedLimits })),
    ],
  }
}

function text(column: string | null): string | null {
  return stored(column ?? undefined) ?? null
}

interface Answer {
  readonly pauses: readonly PauseRuleRow[]
  readonly own: readonly LimitRow[]
  readonly shared: readonly (Pick<LimitRow, 'kind' | 'category' | 'key'> & { readonly limits: string })[]
}

interface LimitRow {
  readonly kind: string
  readonly category: string | null
  readonly key: string | null
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly ordered: boolean
  readonly blocking: boolean
}
