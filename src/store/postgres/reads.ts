import type { CostField, CostFilter } from '../contract/cost.js'
import type { Lane, LaneRecord, SharedLimits } from '../contract/lane.js'
import type { LaneRules } from '../contract/lane-rule.js'
import type { LedgerRow } from '../contract/ledger.js'
import type { CountField, KindStats, Page, PageRequest, StoreStats, TaskCount } from '../contract/list.js'
import type { Prunable } from '../contract/prunable.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { Retention } from '../contract/store.js'
import type { Cost, TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import { inlineTrace } from '../move/movable.js'
import type { ColumnFilter, ReadPort } from '../port/read-port.js'
import type { Promised } from '../port/steps.js'
import { type CostRow, costColumns } from '../rules/costs.js'
import { addUp, addUpGroups, addUpLanes, type DeadOfGroup, isByGroup, isByLane } from '../rules/count-by.js'
import { fullPage, type TaskPlace, taskPage, taskPlace } from '../rules/cursor.js'
import { hourOf } from '../rules/groups/trend.js'
import { containing } from '../rules/json-contains.js'
import { type EntryRow, laneLimits, ledgerRow, type TaskRow, taskColumns, taskRecord } from '../rules/rows.js'
import { type CountedSharedLimit, MAX_READY_SEEN, withShared } from '../rules/stats-book.js'
import { countsWithin, noTasks } from '../rules/task-state.js'
import { COUNT, COUNT_GROUP, countErrors, counting, DEAD_BY_GROUP, laneCounts } from './counting.js'
import { answerOf, int4, type Sql } from './database.js'
import { laneRules } from './lane-rules.js'
import { listing, listingGroup, MATCHES_LANE, placeColumns, STATUSES } from './listing.js'
import { prunable } from './prunable.js'
import { mappedBefore, storable, stored } from './text.js'
import { liveWorkers } from './workers.js'

interface LaneRow extends Lane {
  readonly paused: boolean
  readonly held_until: number | null
  readonly held_by: string | null
  readonly shared_limits: SharedLimits | null
  readonly pace: number | null
  readonly quota: string | null
  readonly running: number
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly ordered: boolean
  readonly blocking: boolean
  readonly blocked_by: string | null
}

interface StatsAnswer extends Omit<StoreStats, 'kinds'> {
  readonly kinds: readonly (Omit<KindStats, 'readySince'> & {
    readonly readySince: number | null
    /** Of the first ready task. */
    readonly cost: Cost | null
  })[]
  readonly shared: readonly (Omit<CountedSharedLimit, 'category'> & { readonly category: string | null })[]
}

/** A number of tasks. The columns that are not counted by are absent. */
interface CountRow extends Omit<TaskCount, 'errorCode' | 'reason' | 'group'> {
  readonly errorCode?: string | null
  readonly reason?: string | null
  readonly group?: string | null
}

/** The reads of a PostgreSQL store. Rows come as JSON, so that numbers are numbers. */
export class PostgresReads implements Promised<ReadPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async get(id: string): Promise<TaskRecord | undefined> {
    const [row] = (await this.#read(GET, [[id]])) as TaskRow[]
    return row && recordOf(row)
  }

  async ledgers(ids: readonly string[]): Promise<LedgerRow[][]> {
    const ledgers = new Map<string, LedgerRow[]>(ids.map(id => [id, []]))
    const rows = (await this.#read(LEDGERS, [ids])) as (EntryRow & { readonly task: string })[]
    for (const row of rows) ledgers.get(row.task)?.push(entryOf(row))
    return ids.map(id => ledgers.get(id) ?? [])
  }

  async payloads(ids: readonly string[]): Promise<(string | undefined)[]> {
    const rows = (await this.#read(PAYLOADS, [ids])) as Pick<TaskRow, 'id' | 'payload'>[]
    const known = new Map(rows.map(({ id, payload }) => [id, payload]))
    return ids.map(id => known.get(id))
  }

  async list(filter: ColumnFilter, { limit, after }: PageRequest): Promise<Page<TaskRecord>> {
    const rows = (await this.#listed(filter, { limit: limit + 1, after })) as TaskRow[]
    return taskPage(rows.map(recordOf), limit)
  }

  async places(filter: ColumnFilter, page: PageRequest): Promise<TaskPlace[]> {
    const rows = (await this.#listed(filter, page, placeColumns)) as Pick<TaskRow, 'id' | 'changed_at'>[]
    return rows.map(({ id, changed_at: changedAt }) => ({ id, changedAt }))
  }

  async several(ids: readonly string[]): Promise<TaskRecord[]> {
    const rows = (await this.#read(GET, [ids])) as TaskRow[]
    const known = new Map(rows.map(row => [row.id, row]))
    return ids.flatMap(id => {
      const row = known.get(id)
      return row === undefined ? [] : recordOf(row)
    })
  }

  async containing(ids: readonly string[], part: string): Promise<string[]> {
    const rows = (await this.#read(CONTAINING, [ids, part])) as readonly { id: string; contains: boolean | null }[]
    const isContaining = containing(part)
    const unread = rows.flatMap(({ id, contains }) => (contains === null ? id : []))
    const payloads = unread.length === 0 ? [] : await this.payloads(unread)
    const found = unread.filter((_, index) => isContaining(payloads[index] ?? ''))
    return [...rows.flatMap(({ id, contains }) => (contains ? id : [])), ...found]
  }

  async count(filter: ColumnFilter): Promise<Record<TaskStatus, number>> {
    if (isByGroup(filter, [])) return { ...noTasks(), dead: (await this.countBy(filter, []))[0]?.count ?? 0 }
    const { errorCode, group } = filter
    const byError = errorCode === undefined ? [] : [storable(errorCode)]
    const [counts] =
      group === undefined
        ? await this.#read(byError.length > 0 ? countErrors(filter.status) : COUNT, [...laneValues(filter), ...byError])
        : await this.#read(COUNT_GROUP, [...laneValues(filter), storable(errorCode) ?? null, group])
    return countsWithin(counts as Record<TaskStatus, number>, filter.status)
  }

  async stats(): Promise<StoreStats> {
    const answer = await this.#sql.call('stats', [MAX_READY_SEEN, this.#sql.at])
    const { now, workers, kinds, shared } = JSON.parse(String(answer)) as StatsAnswer
    const parts = kinds.map(({ cost: _, ...part }) => ({ ...part, readySince: part.readySince ?? undefined }))
    const limits = shared.map(limit => ({ ...limit, category: limit.category ?? undefined }))
    const costOf = ({ kind, category }: KindStats) =>
      kinds.find(part => part.kind === kind && part.category === category)?.cost ?? undefined
    return { now, workers, kinds: withShared(parts, limits, costOf, now) }
  }

  async countBy(filter: ColumnFilter, fields: readonly CountField[]): Promise<TaskCount[]> {
    if (isByLane(filter, fields)) {
      const lanes = (await this.#read(laneCounts(fields), laneValues(filter))) as (Lane & Record<TaskStatus, number>)[]
      return addUpLanes(lanes, filter, fields)
    }
    if (isByGroup(filter, fields)) {
      const groups = await this.#read(DEAD_BY_GROUP, [filter.kind ?? null, filter.group ?? null])
      return addUpGroups(groups as unknown as DeadOfGroup[], fields)
    }
    const statuses = filter.status === undefined ? STATUSES : [filter.status]
    const { group: ofGroup } = filter
    const values = [...laneValues(filter), storable(filter.errorCode) ?? null, ofGroup ?? null]
    const rows = (await this.#read(counting(statuses, fields, ofGroup !== undefined), values)) as CountRow[]
    return addUp(
      rows.map(({ errorCode, reason, group, ...row }) => {
        const failure = { errorCode: stored(errorCode ?? undefined), reason: stored(reason ?? undefined) }
        return { ...row, ...failure, group: group ?? undefined }
      }),
      fields,
    )
  }

  async costs(filter: CostFilter, by: readonly CostField[]): Promise<CostRow[]> {
    const columns = costColumns(by)
    const rows = /* sql */ `
      SELECT ${columns}, sum(amount) AS amount FROM redrive.cost_tally AS lane
      WHERE ${MATCHES_LANE} AND hour >= $4
      GROUP BY ${columns}`
    return (await this.#read(rows, [...laneValues(filter), hourOf(filter.since ?? 0)])) as CostRow[]
  }

  async retried(since: number, { limit, after = '' }: PageRequest): Promise<Page<RetriedTask>> {
    const answer = await this.#sql.call('retried', [Math.ceil(since), after, int4(limit)])
    const items = (JSON.parse(String(answer)) as RetriedTask[]).map(task => {
      return { ...task, ends: task.ends.map(end => ({ ...end, code: stored(end.code) ?? '' })) }
    })
    return fullPage(items, limit, String(items.at(-1)?.id))
  }

  async lanes(filter: Partial<Lane>): Promise<LaneRecord[]> {
    const values = [...laneValues(filter), this.#sql.at]
    const rows = (await this.#read(lanesWhere(MATCHES_LANE, 4), values)) as LaneRow[]
    return rows.map(laneRecord)
  }

  /** Where a task stands. Three queries, so that each has the plan of its own: the parts may be a moment apart. */
  async standing(id: string, limit: number): Promise<TaskStanding | undefined> {
    const { at } = this.#sql
    const answer = await this.#sql.call('standing_of', [id, int4(limit), at])
    const task = await this.get(id)
    if (answer === null || task === undefined) return undefined
    const standing = JSON.parse(String(answer)) as StandingAnswer
    const [lane] = (await this.#read(lanesWhere('lane.id = $1', 2), [standing.lane, at])) as LaneRow[]
    return lane && standingRecord(standing, task, laneRecord(lane))
  }

  laneRules(filter: Partial<Lane>): Promise<LaneRules> {
    return laneRules(this.#sql, filter)
  }

  workers(): Promise<WorkerRecord[]> {
    return liveWorkers(this.#sql)
  }

  prunable(keep: Retention): Promise<Prunable> {
    return prunable(this.#sql, keep)
  }

  #listed(filter: ColumnFilter, { limit, after }: PageRequest, columns?: typeof placeColumns): Promise<unknown[]> {
    const place = after === undefined ? undefined : taskPlace(after)
    const statuses = filter.status === undefined ? STATUSES : [filter.status]
    const { group, errorCode } = filter
    const page = [place?.changedAt ?? null, place?.id ?? null, limit]
    const values = [...laneValues(filter), storable(errorCode) ?? null, ...page]
    if (group === undefined) return this.#read(listing(statuses, columns), values)
    return this.#read(listingGroup(statuses, columns), [...values, group])
  }

  async #read(rows: string, values: unknown[]): Promise<unknown[]> {
    const text = `SELECT coalesce(json_agg(answer), '[]')::text AS answer FROM (${rows}) AS answer`
    return JSON.parse(String(answerOf(await this.#sql.query(text, values)))) as unknown[]
  }
}

const GET = /* sql */ `
  SELECT ${taskColumns()} FROM redrive.standing AS task JOIN redrive.lane ON lane.id = task.lane WHERE task.id = ANY ($1::text[])`

/** NULL if PostgreSQL cannot read the payload as `jsonb`: see functions/contains.sql. */
const CONTAINING = /* sql */ `
  SELECT id, redrive.payload_contains(payload, $2) AS contains FROM redrive.task WHERE id = ANY ($1::text[])`

const PAYLOADS = /* sql */ `SELECT id, payload FROM redrive.task WHERE id = ANY ($1::text[])`

/** The attempt that a task succeeded with is in its own row. */
const LEDGERS = /* sql */ `
  SELECT task, sequence, attempt, started_at, ended_at, worker, outcome, delay_ms, reason, error_class, error_code,
    retry_after, error, random, policy, before, failure_group, category, version, call, stack, trace, release, notes
  FROM redrive.ledger WHERE task = ANY ($1::text[])
  UNION ALL
  SELECT id, entries, ran_attempt, ran_from, ran_to, worker, 'succeeded', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, (SELECT lane.category FROM redrive.lane WHERE lane.id = task.lane), version, call, NULL,
    ${inlineTrace('redrive.ledger WHERE ledger.task = task.id')}, release, NULL
  FROM redrive.task
  WHERE id = ANY ($1::text[]) AND state = redrive.state_succeeded() AND ran_attempt IS NOT NULL
    AND NOT EXISTS (SELECT FROM redrive.ledger WHERE ledger.task = task.id AND sequence = entries)
  ORDER BY task, sequence`

/** Lanes that meet a condition. `clock` is the number of the parameter that has the time. */
const lanesWhere = (condition: string, clock: number) => /* sql */ `
  SELECT kind, category, key, paused, CASE WHEN hold.until > clock.now THEN hold.until END AS held_until,
    CASE WHEN hold.until > clock.now THEN hold.task END AS held_by,
    (SELECT coalesce(sum(tally.running), 0) FROM redrive.tally WHERE tally.lane = lane.id) AS running,
    concurrency, per_second, ordered, blocking,
    CASE WHEN blocking THEN redrive.letter_before(lane.id, NULL, NULL, NULL) END AS blocked_by, shared.limits AS shared_limits, redrive.pace_at(shared.state, clock.now) AS pace,
    shared.quota
  FROM redrive.lane
  CROSS JOIN (SELECT redrive.now_ms($${clock}) AS now) AS clock
  LEFT JOIN LATERAL (
    SELECT limits::jsonb, state::jsonb, quota FROM redrive.shared_limit WHERE shared_limit.id = lane.shared
  ) AS shared ON true
  CROSS JOIN LATERAL (
    SELECT greatest(held_until, shared_hold.until) AS until,
      CASE WHEN shared_hold.until > held_until THEN shared.state ->> 'heldBy' ELSE held_by END AS task
    FROM (SELECT (shared.state ->> 'heldUntil')::float8::bigint AS until) AS shared_hold
  ) AS hold
  WHERE ${condition}
  ORDER BY kind, category, key`

function laneRecord(row: LaneRow): LaneRecord {
  return {
    kind: row.kind,
    category: row.category,
    key: row.key,
    isPaused: row.paused,
    heldUntil: row.held_until ?? undefined,
    heldBy: row.held_by ?? undefined,
    blockedBy: row.blocked_by ?? undefined,
    running: row.running,
    limits: laneLimits(row),
    shared: row.shared_limits
      ? { limits: row.shared_limits, pace: row.pace ?? undefined, ...(row.quota !== null && { quota: row.quota }) }
      : undefined,
  }
}

/** Converts a row to a record. */
export function recordOf(row: TaskRow): TaskRecord {
  const { errorCode, errorMessage, reason, ...record } = taskRecord(row)
  return { ...record, errorCode: stored(errorCode), errorMessage: stored(errorMessage), reason: stored(reason) }
}

function entryOf(row: EntryRow): LedgerRow {
  const text = (column: string | null) => stored(column ?? undefined) ?? null
  return ledgerRow({
    ...row,
    error_code: text(row.error_code),
    error: text(row.error),
    stack: text(row.stack),
    reason: text(row.reason),
    worker: text(row.worker) ?? '',
    before: mappedBefore(row.before, stored),
  })
}

function laneValues({ kind, category, key }: Partial<Lane>): (string | null)[] {
  return [kind ?? null, category ?? null, key ?? null]
}

/** The answer of the SQL function `standing_of`. */
interface StandingAnswer {
  readonly now: number
  readonly lane: number
  readonly is_undecided: boolean
  readonly is_to_be_cancelled: boolean
  readonly before: number | null
  readonly worker: { readonly name: string; readonly until: number | null } | null
  readonly behind_retry: string | null
  readonly blocked_by: string | null
  readonly retry_budget: { readonly kind: string; readonly category: string | null } | null
  readonly ramp: number | null
  readonly rate_opens_at: number | null
  readonly shared: { readonly running: number | null; readonly opens_at: number } | null
}

function standingRecord(answer: StandingAnswer, task: TaskRecord, lane: LaneRecord): TaskStanding {
  const { now, worker, shared, retry_budget: budget } = answer
  return {
    now,
    task,
    lane,
    before: answer.before ?? undefined,
    worker: worker === null ? undefined : { name: worker.name, until: worker.until ?? undefined },
    isUndecided: answer.is_undecided,
    isToBeCancelled: answer.is_to_be_cancelled,
    retryBudget:
      budget === null
        ? undefined
        : { kind: budget.kind, ...(budget.category !== null && { category: budget.category }) },
    behindRetry: answer.behind_retry ?? undefined,
    blockedBy: answer.blocked_by ?? undefined,
    ramp: answer.ramp ?? undefined,
    rateOpensAt: answer.rate_opens_at ?? undefined,
    shared: shared === null ? undefined : { running: shared.running ?? undefined, opensAt: shared.opens_at },
  }
}
