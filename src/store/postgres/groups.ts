import type { GroupRule, GroupRules, NewGroupRule, Regrouping } from '../contract/group-rule.js'
import type { GroupFilter, GroupMark, GroupRecord, GroupStore } from '../contract/group-store.js'
import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import { checkBy, checkGroupFilter, checkGroupId, checkMark, checkName, checkPage } from '../rules/check.js'
import { taskPlace } from '../rules/cursor.js'
import { checkRegrouping, checkRule, checkRuleCount, checkRuleId } from '../rules/groups/check-rule.js'
import { groupPage } from '../rules/groups/group-page.js'
import { type GroupRow, groupRecord } from '../rules/groups/group-row.js'
import { type AtMark, lifeAfterMark } from '../rules/groups/life.js'
import { lifeRow } from '../rules/groups/life-row.js'
import { type RuleRow, ruleOf } from '../rules/groups/rule-row.js'
import { markRecord, ruleRecord } from '../rules/operator-record.js'
import { answerOf, type Database, LONG } from './database.js'
import { groupRow } from './outcome-row.js'
import { storable, stored } from './text.js'

/** $1 is the clock of tests. */
const ALL = /* sql */ `
  SELECT its.id, its.kind, its.code, its.error_name, its.pattern, its.frames, its.first_seen, its.life,
    its.marked_at, its.who, its.why, its.details, clock.now,
    coalesce(sum(seen), 0)::bigint AS seen, coalesce(sum(retrying), 0)::bigint AS retrying,
    coalesce(sum(dead), 0)::bigint AS dead, greatest(its.first_seen, max(last_seen)) AS last_seen,
    coalesce(json_agg(json_build_array(hour, seen)) FILTER (WHERE hour > clock.now - 24 * 3600000), '[]')::text AS hours
  FROM redrive.failure_group AS its
  CROSS JOIN (SELECT redrive.now_ms($1) AS now) AS clock
  LEFT JOIN redrive.group_tally AS tally ON tally.failure_group = its.id`

const GET = /* sql */ `${ALL} WHERE its.id = $2 GROUP BY its.id, clock.now`

const LIST = /* sql */ `
  SELECT * FROM (${ALL} WHERE $2::text IS NULL OR its.kind = $2 GROUP BY its.id, clock.now) AS found
  WHERE $3::bigint IS NULL OR (last_seen, id) < ($3, $4)
  ORDER BY last_seen DESC, id DESC
  LIMIT $5`

/** Reads and marks failure groups. A kind has few of them, so that all are looked at. */
export class PostgresGroups implements GroupStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async get(id: string): Promise<GroupRecord | undefined> {
    checkGroupId(id)
    const [group] = await this.#read(GET, [id])
    return group
  }

  async list(filter: GroupFilter, { limit, after }: PageRequest): Promise<Page<GroupRecord>> {
    checkGroupFilter(filter)
    checkPage({ limit })
    const place = after === undefined ? undefined : taskPlace(after)
    // The state of a group follows from its figures, so those in other states are left out later.
    const rows = filter.states === undefined ? limit + 1 : null
    const values = [filter.kind ?? null, place?.changedAt ?? null, place?.id ?? null, rows]
    return groupPage(await this.#read(LIST, values), filter, limit)
  }

  async mark(id: string, mark: GroupMark, by: By): Promise<boolean> {
    checkGroupId(id)
    checkMark(mark)
    checkName('who', by?.who)
    checkBy(by)
    const { at } = this.#database
    return this.#database.callTogether(async call => {
      const facts = await call('lock_group', [id, at])
      if (facts === null) return false
      const atMark = JSON.parse(String(facts)) as AtMark
      const { life, marked_at, who, why, details } = lifeRow(lifeAfterMark(mark, by, atMark))
      const texts = [who, why].map(text => storable(text ?? undefined) ?? null)
      await call('mark_group', [id, life, marked_at, ...texts, details])
      await call('append_audit', [JSON.stringify([markRecord(id, mark, by, atMark.now)]), at])
      return true
    })
  }

  async rules(): Promise<GroupRules> {
    return rulesOf(await this.#database.call('group_rules', []))
  }

  async addRule({ kind, pattern }: NewGroupRule, by: By): Promise<GroupRule> {
    checkRule({ kind, pattern }, by)
    const { at } = this.#database
    return this.#database.callTogether(async call => {
      await call('lock_rules', [])
      const { rules } = rulesOf(await call('group_rules', []))
      const known = rules.find(rule => rule.kind === kind && rule.pattern === pattern)
      if (known !== undefined) return known
      checkRuleCount(rules.length)
      const now = Number(await call('now_ms', [at]))
      const { who, why = null } = by
      const texts = [who, why].map(text => storable(text ?? undefined) ?? null)
      const id = Number(await call('add_rule', [kind ?? null, storable(pattern), now, ...texts]))
      const rule = ruleOf({ id, kind: kind ?? null, pattern, at: now, who, why })
      await call('append_audit', [JSON.stringify([ruleRecord('added', rule, by, now)]), at])
      return rule
    })
  }

  async removeRule(id: number, by: By): Promise<boolean> {
    checkRuleId(id)
    checkName('who', by?.who)
    checkBy(by)
    const { at } = this.#database
    return this.#database.callTogether(async call => {
      await call('lock_rules', [])
      const { rules } = rulesOf(await call('group_rules', []))
      const rule = rules.find(rule => rule.id === id)
      if (rule === undefined) return false
      await call('remove_rule', [id])
      const now = Number(await call('now_ms', [at]))
      await call('append_audit', [JSON.stringify([ruleRecord('removed', rule, by, now)]), at])
      return true
    })
  }

  async regroup(regrouping: Regrouping): Promise<number> {
    checkRegrouping(regrouping)
    const { from, heir, moves } = regrouping
    const groups = new Map(moves.map(({ to }) => [to.id, groupRow(to)]))
    const values = [
      from,
      heir === undefined ? null : JSON.stringify(groupRow(heir)),
      JSON.stringify([...groups.values()]),
      moves.map(({ task }) => task),
      moves.map(({ to }) => to.id),
      this.#database.at,
    ]
    return Number(await this.#database.call('regroup', values, LONG))
  }

  async regrouped(grouping: string): Promise<void> {
    checkName('grouping', grouping)
    await this.#database.call('note_regrouped', [grouping])
  }

  async #read(rows: string, values: unknown[]): Promise<GroupRecord[]> {
    const text = `SELECT coalesce(json_agg(answer), '[]')::text AS answer FROM (${rows}) AS answer`
    const answer = answerOf(await this.#database.query(text, [this.#database.at, ...values], LONG))
    return (JSON.parse(String(answer)) as (GroupRow & { readonly now: number })[]).map(row => {
      const { code, error_name, pattern, frames, who, why } = row
      const texts = { code, error_name, pattern, frames, who, why }
      const read = Object.fromEntries(
        Object.entries(texts).map(([name, text]) => [name, stored(text ?? undefined) ?? null]),
      )
      return groupRecord({ ...row, ...read }, row.now)
    })
  }
}

function rulesOf(answer: unknown): GroupRules {
  const { rules, regrouped } = JSON.parse(String(answer)) as { rules: readonly RuleRow[]; regrouped: string | null }
  const read = (row: RuleRow) => {
    const texts = { pattern: stored(row.pattern) ?? '', who: stored(row.who) ?? '' }
    return ruleOf({ ...row, ...texts, why: stored(row.why ?? undefined) ?? null })
  }
  return { rules: rules.map(read), regrouped: regrouped ?? undefined }
}
