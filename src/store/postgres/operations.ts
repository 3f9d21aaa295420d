import type { Lane } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import {
  AGES,
  type DeathsRow,
  type LivingStanding,
  type OperationAct,
  type OperationMember,
  type OperationTally,
  type SurveyRow,
} from '../contract/operation-store.js'
import type {
  DeadPayload,
  LivingPage,
  MemberScope,
  NamedMember,
  OperationPort,
  PayloadEdit,
  UndonePage,
} from '../port/operation-port.js'
import type { ColumnFilter } from '../port/read-port.js'
import type { Promised } from '../port/steps.js'
import type { TaskPlace } from '../rules/cursor.js'
import { NO_TALLY } from '../rules/operations/operation-rules.js'
import { AGE_LIMITS_MS } from '../rules/operations/set.js'
import { isOnLiving } from '../rules/operator-acts.js'
import { int4, type Sql } from './database.js'
import { byValues, storable, stored } from './text.js'

/** Nothing may have been counted. */
interface TallyRow {
  readonly now: number
  readonly tally: OperationTally | null
}

interface UndoneRow {
  readonly undone: number
  readonly next: string | null
}

interface LaneColumns extends Lane {
  readonly ordered: boolean
  readonly paused: boolean
}

/** A task that was named. */
interface MemberRow extends LaneColumns {
  readonly id: string
  readonly changed_at: number
  readonly error_code: string | null
  readonly standing: LivingStanding | null
}

/** Tasks as `lock_payloads` gives them. */
interface Payloads {
  readonly ids: readonly string[]
  readonly payloads: readonly string[]
}

/** Members as `members_json` gives them: each list but the last has a place for each member. */
interface MemberColumns {
  readonly ids: readonly string[]
  readonly times: readonly number[]
  readonly lanes: readonly number[]
  readonly known: readonly (LaneColumns & { readonly id: number })[]
}

/** Members that have not ended: `standings` has a place for each. */
interface LivingColumns {
  readonly next: string | null
  readonly members: MemberColumns
  readonly standings: readonly LivingStanding[]
}

/** The primitives of operations on PostgreSQL. */
export class PostgresOperationPort implements Promised<OperationPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async tally(id: string): Promise<{ tally: OperationTally; now: number }> {
    const { now, tally } = (await this.#sql.call('fold_member_tally', [id, this.#sql.at])) as TallyRow
    return { now, tally: tally ?? NO_TALLY }
  }

  async tallies(ids: readonly string[]): Promise<ReadonlyMap<string, OperationTally>> {
    if (ids.length === 0) return new Map()
    return new Map(Object.entries((await this.#sql.call('member_tallies', [ids])) as Record<string, OperationTally>))
  }

  async dropTallies(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#sql.call('drop_member_tallies', [ids])
  }

  async deadPayloads(ids: readonly string[]): Promise<DeadPayload[]> {
    const dead = JSON.parse(String(await this.#sql.call('lock_payloads', [ids]))) as Payloads
    return dead.ids.map((id, index) => ({ id, payload: dead.payloads[index] ?? '' }))
  }

  async replacePayloads(edits: readonly PayloadEdit[]): Promise<void> {
    if (edits.length === 0) return
    await this.#sql.call('replace_payloads', [edits.map(({ id }) => id), edits.map(({ after }) => after)])
  }

  async namedMembers(act: OperationAct, ids: readonly string[], until: number): Promise<NamedMember[]> {
    const { query, at } = this.#sql
    const rows = (await query(isOnLiving(act) ? NAMED_LIVING : NAMED_DEAD, [
      ids,
      isOnLiving(act) ? at : until,
    ])) as MemberRow[]
    const named = new Map(rows.map(row => [row.id, row]))
    return ids.flatMap(id => {
      const row = named.get(id)
      if (row === undefined) return []
      return {
        ...memberOf(id, row, Number(row.changed_at), row.standing ?? undefined),
        errorCode: stored(row.error_code ?? undefined),
      }
    })
  }

  async members(
    act: OperationAct,
    { filter, until }: MemberScope,
    after: TaskPlace,
    limit: number,
  ): Promise<OperationMember[]> {
    const { call } = this.#sql
    const [kind, category, key, error, group] = scopeOf(filter)
    const lanes = [kind, category, key, error]
    if (isOnLiving(act)) return members(await call('living_members', [...lanes, group, until, int4(limit)]))
    const page = [until, after.changedAt, after.id, int4(limit)]
    return members(
      group === null
        ? await call('dead_members', [...lanes, ...page])
        : await call('group_members', [group, ...lanes, ...page]),
    )
  }

  async living({ filter, until }: MemberScope, after: string, upTo: number): Promise<LivingPage> {
    const { call, at } = this.#sql
    const answer = await call('living_from', [...scopeOf(filter), until, after, int4(upTo), at])
    const { next, members, standings } = JSON.parse(String(answer)) as LivingColumns
    const found = membersOf(members, standings)
    return next === null ? { members: found } : { members: found, next }
  }

  async survey(act: OperationAct, scope: MemberScope): Promise<SurveyRow[]> {
    const { query, at } = this.#sql
    const [facts] = (await query(FACTS, [at])) as SurveyFacts[]
    const values = [...scopeOf(scope.filter), scope.until, facts?.now]
    const rows = (await query(surveyOf(act, scope, facts), values)) as SurveyedRow[]
    return rows.map(({ kind, category, error_code, ordered, paused, standing, age, twin, count }) => {
      const facts = { errorCode: stored(error_code ?? undefined), standing: standing ?? undefined }
      const lane = { isOrdered: ordered, isPaused: paused, hasTwin: twin }
      return { kind, category, ...facts, ...lane, age: AGES[Number(age)] ?? 'older', count: Number(count) }
    })
  }

  async deaths(id: string): Promise<DeathsRow[]> {
    const rows = (await this.#sql.query(DEATHS, [id])) as DeathRow[]
    return rows.map(({ kind, error_code, failure_group, count }) => {
      const group = failure_group ?? undefined
      return { kind, errorCode: stored(error_code ?? undefined), group, count: Number(count) }
    })
  }

  async restore(id: string, after: string, limit: number, by: By): Promise<UndonePage> {
    const values = [id, after, int4(limit), ...byValues(by), this.#sql.at]
    const { undone, next } = (await this.#sql.call('undo_members', values)) as UndoneRow
    return next === null ? { undone } : { undone, next }
  }
}

function members(answer: unknown): OperationMember[] {
  return membersOf(JSON.parse(String(answer)) as MemberColumns)
}

function membersOf(
  { ids, times, lanes, known }: MemberColumns,
  standings: readonly LivingStanding[] = [],
): OperationMember[] {
  const byId = new Map(known.map(lane => [lane.id, lane]))
  return ids.flatMap((id, index) => {
    const lane = byId.get(lanes[index] ?? 0)
    return lane === undefined ? [] : memberOf(id, lane, times[index] ?? 0, standings[index])
  })
}

function memberOf(
  id: string,
  { kind, category, key, ordered, paused }: LaneColumns,
  changedAt: number,
  standing: LivingStanding | undefined,
): OperationMember {
  return { id, kind, category, key, changedAt, isOrdered: ordered, isPaused: paused, standing }
}

/** The number of the age limits that a state has passed. Counts come as text. */
interface SurveyedRow {
  readonly kind: string
  readonly category: string
  readonly error_code: string | null
  readonly ordered: boolean
  readonly paused: boolean
  readonly standing: LivingStanding | null
  readonly age: number
  readonly twin: boolean
  readonly count: string
}

/** Dead members that agree in these fields. The count comes as text. */
interface DeathRow extends Pick<SurveyedRow, 'kind' | 'error_code' | 'count'> {
  readonly failure_group: string | null
}

/** The fields of a filter as the functions take them. */
function scopeOf({ kind, category, key, errorCode, group }: ColumnFilter): (string | null)[] {
  return [kind ?? null, category ?? null, key ?? null, storable(errorCode) ?? null, group ?? null]
}

const IS_DEAD = 'task.state = redrive.state_dead()'
const IS_LIVING = 'task.state = redrive.state_running() AND NOT task.cancel_requested'

const PASSED_AGES = AGE_LIMITS_MS.map(limit => `($7::bigint - task.changed_at >= ${limit})::int`).join(' + ')

/** Whether another task has the key by now that a dead member had until it ended. */
const HAS_TWIN = /* sql */ `CASE WHEN task.unique_while = 'unfinished' AND task.state = redrive.state_dead() THEN redrive.has_twin(
    task, (SELECT its.kind FROM redrive.lane AS its WHERE its.id = task.lane), $7) ELSE false END`

/**
 * All members are looked at, so the planner is free to join them as it likes. They are counted by lane first: there are far
 * fewer lanes to be joined than tasks.
 */
function survey(from: string, condition: string, since: string, standing = 'NULL'): string {
  return /* sql */ `
    SELECT lane.kind, lane.category, counted.error_code, lane.ordered, lane.paused, counted.standing, counted.age,
      counted.twin, sum(counted.count) AS count
    FROM (
      SELECT task.lane, task.error_code, ${standing} AS standing, ${PASSED_AGES} AS age, ${HAS_TWIN} AS twin,
        count(*) AS count
      FROM ${from}
      WHERE ${condition} AND ${since} <= $6 AND ($4::text IS NULL OR task.error_code = $4)
        AND ($5::text IS NULL OR task.failure_group = $5)
      GROUP BY 1, 2, 3, 4, 5
    ) AS counted JOIN redrive.lane ON lane.id = counted.lane
    WHERE ($1::text IS NULL OR lane.kind = $1) AND ($2::text IS NULL OR lane.category = $2)
      AND ($3::text IS NULL OR lane.key = $3)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8`
}

interface SurveyFacts {
  readonly now: string
  readonly is_dead_many: boolean
}

/** The time, and whether so many tasks are dead that reading them all is faster than finding the dead ones. */
const FACTS = /* sql */ `
  SELECT redrive.now_ms($1) AS now,
    10 * sum(dead) > sum(waiting + running + succeeded + skipped + dead + cancelled) AS is_dead_many
  FROM redrive.tally`

function surveyOf(act: OperationAct, { filter }: MemberScope, facts: SurveyFacts | undefined): string {
  if (isOnLiving(act)) return SURVEY_LIVING
  if (filter.group !== undefined) return SURVEY_GROUP
  return facts?.is_dead_many === true ? SURVEY_MANY_DEAD : SURVEY_DEAD
}

const SURVEY_MANY_DEAD = survey('redrive.task', IS_DEAD, 'task.changed_at')

const SURVEY_GROUP = survey(
  'redrive.task',
  `${IS_DEAD} AND task.failure_state = redrive.state_dead()`,
  'task.failure_at',
)

const SURVEY_DEAD = survey(
  /* sql */ `
    redrive.ended CROSS JOIN unnest(ended.tasks) AS one (id)
    JOIN redrive.task ON task.id = one.id AND task.changed_at = ended.at AND ended.state = redrive.state_dead()`,
  IS_DEAD,
  'ended.at',
)

const SURVEY_LIVING = survey(
  /* sql */ `
    (
      SELECT waiting.task AS id, NULL::int AS round, waiting.next_at FROM redrive.waiting
      UNION ALL
      SELECT one.id, one.round, NULL FROM redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) AS one (id, round)
    ) AS living
    JOIN redrive.task ON task.id = living.id AND task.round = coalesce(living.round, task.round)`,
  IS_LIVING,
  'task.submitted_at',
  'redrive.standing_in(living.next_at, $7)',
)

const NAMED = /* sql */ `
  SELECT task.id, lane.kind, lane.category, lane.key, task.changed_at, lane.ordered, lane.paused, task.error_code`

const NAMED_DEAD = /* sql */ `
  ${NAMED}, NULL AS standing
  FROM redrive.task JOIN redrive.lane ON lane.id = task.lane
  WHERE task.id = ANY ($1::text[]) AND ${IS_DEAD} AND task.changed_at <= $2`

const NAMED_LIVING = /* sql */ `
  ${NAMED}, redrive.standing_in(queued.next_at, redrive.now_ms($2)) AS standing
  FROM redrive.task JOIN redrive.lane ON lane.id = task.lane
  LEFT JOIN LATERAL (SELECT * FROM redrive.waiting_of(task) OFFSET 0) AS queued ON true
  WHERE task.id = ANY ($1::text[]) AND ${IS_LIVING}`

const DEATHS = /* sql */ `
  SELECT lane.kind, task.error_code, task.failure_group, count(*) AS count
  FROM redrive.task JOIN redrive.lane ON lane.id = task.lane
  WHERE task.operation = $1 AND ${IS_DEAD}
  GROUP BY 1, 2, 3`
