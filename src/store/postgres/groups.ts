import type { Regrouping } from '../contract/group-rule.js'
import type { FailureGroup, GroupLife } from '../contract/group-store.js'
import type { GroupPort } from '../port/group-port.js'
import type { Promised } from '../port/steps.js'
import type { TaskPlace } from '../rules/cursor.js'
import type { KeptGroup } from '../rules/groups/group-record.js'
import { type GroupRow, keptGroup } from '../rules/groups/group-row.js'
import { lifeRow } from '../rules/groups/life-row.js'
import { answerOf, type Sql } from './database.js'
import { groupRow } from './outcome-row.js'
import { storable, stored } from './text.js'

/** The primitives of failure groups on PostgreSQL. A kind has few groups, so that lists look at all of them. */
export class PostgresGroupPort implements Promised<GroupPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async get(id: string): Promise<KeptGroup | undefined> {
    return (await this.#read(NAMED, [[id]]))[0]
  }

  list(kind: string | undefined, { changedAt, id }: TaskPlace, limit: number): Promise<KeptGroup[]> {
    return this.#read(LIST, [kind ?? null, changedAt, id, limit])
  }

  async lock(ids: readonly string[]): Promise<KeptGroup[]> {
    await this.#sql.call('lock_groups', [ids])
    return this.#read(NAMED, [ids])
  }

  async saveLife(id: string, life: GroupLife): Promise<void> {
    const { life: state, marked_at, who, why, details } = lifeRow(life)
    const texts = [who, why].map(text => storable(text ?? undefined) ?? null)
    await this.#sql.call('mark_group', [id, state, marked_at, ...texts, details])
  }

  async lockMembers(id: string, tasks: readonly string[]): Promise<string[]> {
    return (await this.#sql.call('lock_group_members', [id, tasks])) as string[]
  }

  async placesLeft(kind: string): Promise<number> {
    return Number(answerOf(await this.#sql.query('SELECT redrive.groups_left($1) AS answer', [kind])))
  }

  async add(groups: readonly FailureGroup[], firstSeenAt: number): Promise<void> {
    await this.#sql.call('add_groups', [JSON.stringify(groups.map(groupRow)), firstSeenAt])
  }

  async inherit(left: string, heir: string): Promise<void> {
    await this.#sql.call('inherit_failures', [left, heir])
  }

  async moveMembers(left: string, moves: Regrouping['moves'], heir: string | undefined): Promise<void> {
    const [tasks, targets] = [moves.map(({ task }) => task), moves.map(({ to }) => to.id)]
    await this.#sql.call('move_to_groups', [left, heir ?? null, tasks, targets])
  }

  async forget(id: string): Promise<void> {
    await this.#sql.call('forget_group', [id])
  }

  async #read(rows: string, values: unknown[]): Promise<KeptGroup[]> {
    const text = `SELECT coalesce(json_agg(answer), '[]')::text AS answer FROM (${rows}) AS answer`
    const answer = answerOf(await this.#sql.query(text, [this.#sql.at, ...values]))
    return (JSON.parse(String(answer)) as GroupRow[]).map(row => keptGroup({ ...row, ...textsOf(row) }))
  }
}

/** The free texts of a row, as they were given. */
function textsOf({ code, error_name, pattern, frames, who, why }: GroupRow): Partial<GroupRow> {
  const texts = Object.entries({ code, error_name, pattern, frames, who, why })
  return Object.fromEntries(texts.map(([name, text]) => [name, stored(text ?? undefined) ?? null]))
}

/** $1 is the clock of tests. */
const ALL = /* sql */ `
  SELECT its.id, its.kind, its.code, its.error_name, its.pattern, its.frames, its.first_seen, its.life,
    its.marked_at, its.who, its.why, its.details,
    coalesce(sum(seen), 0)::bigint AS seen, coalesce(sum(retrying), 0)::bigint AS retrying,
    coalesce(sum(dead), 0)::bigint AS dead, greatest(its.first_seen, max(last_seen)) AS last_seen,
    coalesce(json_agg(json_build_array(hour, seen)) FILTER (WHERE hour > clock.now - 24 * 3600000), '[]')::text AS hours
  FROM redrive.failure_group AS its
  CROSS JOIN (SELECT redrive.now_ms($1) AS now) AS clock
  LEFT JOIN redrive.group_tally AS tally ON tally.failure_group = its.id`

const NAMED = /* sql */ `${ALL} WHERE its.id = ANY ($2) GROUP BY its.id`

const LIST = /* sql */ `
  SELECT * FROM (${ALL} WHERE $2::text IS NULL OR its.kind = $2 GROUP BY its.id) AS found
  WHERE (last_seen, id) < ($3, $4)
  ORDER BY last_seen DESC, id DESC
  LIMIT $5`
