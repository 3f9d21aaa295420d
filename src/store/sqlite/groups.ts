import type { GroupRule, GroupRules, NewGroupRule, Regrouping } from '../contract/group-rule.js'
import type { GroupFilter, GroupMark, GroupRecord, GroupStore } from '../contract/group-store.js'
import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import { checkBy, checkGroupFilter, checkGroupId, checkMark, checkName, checkPage } from '../rules/check.js'
import { taskPlace } from '../rules/cursor.js'
import { checkRegrouping, checkRule, checkRuleId } from '../rules/groups/check-rule.js'
import { groupPage } from '../rules/groups/group-page.js'
import { type GroupRow, groupRecord } from '../rules/groups/group-row.js'
import { lifeAfterMark } from '../rules/groups/life.js'
import { lifeRow } from '../rules/groups/life-row.js'
import { trendFrom } from '../rules/groups/trend.js'
import { markRecord } from '../rules/operator-record.js'
import type { Connection } from './driver.js'
import type { GroupCommit } from './group-commit.js'
import { addRule, groupRules, removeRule } from './group-rules.js'
import { regroup } from './regroup.js'
import type { Statements } from './statements.js'
import { liveWorkers } from './workers.js'

const ALL = /* sql */ `
  SELECT failure_group.id, kind, code, error_name, pattern, frames, first_seen, life, marked_at, who, why, details,
    ifnull(sum(seen), 0) AS seen, ifnull(sum(retrying), 0) AS retrying, ifnull(sum(dead), 0) AS dead,
    max(first_seen, ifnull(max(last_seen), 0)) AS last_seen,
    json_group_array(json_array(hour, seen)) FILTER (WHERE hour >= :from) AS hours
  FROM failure_group LEFT JOIN group_tally ON group_tally.failure_group = failure_group.id`

/** The state of a group follows from its figures, so those in other states are left out later. */
const ALL_ROWS = -1

const NEWEST = { changedAt: Number.MAX_SAFE_INTEGER, id: '' }

/** Reads and marks failure groups. A kind has few of them, so that all are looked at. */
export class SqliteGroups implements GroupStore {
  readonly #statements: Statements
  readonly #commits: GroupCommit
  readonly #now: () => number
  readonly #get
  readonly #list

  constructor(db: Connection, statements: Statements, commits: GroupCommit, now: () => number) {
    this.#statements = statements
    this.#commits = commits
    this.#now = now
    this.#get = db.prepare<object, GroupRow>(/* sql */ `${ALL} WHERE id = :id GROUP BY id`)
    this.#list = db.prepare<object, GroupRow>(/* sql */ `
      SELECT * FROM (${ALL} WHERE :kind IS NULL OR kind = :kind GROUP BY id)
      WHERE last_seen < :last_seen OR (last_seen = :last_seen AND id < :id)
      ORDER BY last_seen DESC, id DESC
      LIMIT :limit + 0`)
  }

  async get(id: string): Promise<GroupRecord | undefined> {
    checkGroupId(id)
    return this.#commits.read(() => {
      const now = this.#now()
      const row = this.#get.get({ id, from: trendFrom(now) })
      return row && groupRecord(row, now)
    })
  }

  async list(filter: GroupFilter, { limit, after }: PageRequest): Promise<Page<GroupRecord>> {
    checkGroupFilter(filter)
    checkPage({ limit })
    const { changedAt: last_seen, id } = after === undefined ? NEWEST : taskPlace(after)
    return this.#commits.read(() => {
      const now = this.#now()
      const place = {
        last_seen,
        id,
        limit: filter.states === undefined ? limit + 1 : ALL_ROWS,
        from: trendFrom(now),
        kind: filter.kind ?? null,
      }
      return groupPage(
        this.#list.all(place).map(row => groupRecord(row, now)),
        filter,
        limit,
      )
    })
  }

  async mark(id: string, mark: GroupMark, by: By): Promise<boolean> {
    checkGroupId(id)
    checkMark(mark)
    checkName('who', by?.who)
    checkBy(by)
    return this.#commits.write(() => {
      const now = this.#now()
      const group = this.#get.get({ id, from: trendFrom(now) })
      if (group === undefined) return false
      const releases = liveWorkers(this.#statements, now).flatMap(({ release }) => release ?? [])
      const life = lifeAfterMark(mark, by, { now, seen: group.seen, releases })
      this.#statements.markGroup.run({ id, ...lifeRow(life) })
      this.#statements.appendAudit.run(now, markRecord(id, mark, by, now))
      return true
    })
  }

  async rules(): Promise<GroupRules> {
    return this.#commits.read(() => groupRules(this.#statements))
  }

  async addRule(rule: NewGroupRule, by: By): Promise<GroupRule> {
    checkRule(rule, by)
    return this.#commits.write(() => addRule(this.#statements, rule, by, this.#now()))
  }

  async removeRule(id: number, by: By): Promise<boolean> {
    checkRuleId(id)
    checkName('who', by?.who)
    checkBy(by)
    return this.#commits.write(() => removeRule(this.#statements, id, by, this.#now()))
  }

  async regroup(regrouping: Regrouping): Promise<number> {
    checkRegrouping(regrouping)
    return this.#commits.write(() => regroup(this.#statements, regrouping))
  }

  async regrouped(grouping: string): Promise<void> {
    checkName('grouping', grouping)
    await this.#commits.write(() => this.#statements.setRegrouped.run(grouping))
  }
}
