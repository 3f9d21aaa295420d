import type { Lane, LaneRecord, SharedLimits } from '../contract/lane.js'
import type { LedgerRow } from '../contract/ledger.js'
import type { CountField, Page, PageRequest, TaskCount } from '../contract/list.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import { inlineTrace } from '../move/movable.js'
import type { ColumnFilter } from '../port/read-port.js'
import {
  addUp,
  addUpGroups,
  addUpLanes,
  type DeadOfGroup,
  isByGroup,
  isByLane,
  laneColumns,
} from '../rules/count-by.js'
import { compareTexts, fullPage, numberPlace, type TaskPlace, taskPage, taskPlace } from '../rules/cursor.js'
import { type EntryRow, laneLimits, ledgerRow, type TaskRow, taskColumns, taskRecord } from '../rules/rows.js'
import { FIRST_RUN_LANE } from '../rules/runs/items.js'
import { paceAt, type SharedState } from '../rules/shared-limit.js'
import { countsWithin, noTasks, State, statusOf } from '../rules/task-state.js'
import type { Connection, Statement } from './driver.js'
import { parsedShared } from './shared-book.js'
import { firstLetter } from './statements/letters.js'

interface InlineAttempt {
  readonly seq: number
  readonly state: number
  readonly entries: number
  readonly ran_from: number
  readonly ran_to: number
  readonly ran_attempt: number
  readonly worker: string
  readonly category: string
  readonly version: string | null
  readonly release: string | null
  readonly call: string | null
  readonly trace: string | null
}

/** A lane with its shared limit. */
export interface LaneRow extends Lane {
  readonly paused: number
  readonly held_until: number
  readonly held_by: string | null
  readonly running: number
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly ordered: number
  readonly blocking: number
  readonly blocked_by: string | null
  readonly shared_limits: string | null
  readonly quota: string | null
  readonly shared_state: string | null
}

/** Where a list has a task. */
type PlaceRow = Pick<TaskRow, 'id' | 'changed_at'>

/** A number of tasks. The columns that are not counted by are absent. */
interface CountRow {
  readonly state: number
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly errorCode?: string | null
  readonly reason?: string | null
  readonly group?: string | null
  readonly count: number
}

interface RetriedRow {
  readonly seq: number
  readonly id: string
  readonly kind: string
  readonly succeeded: number
  /** A JSON array. */
  readonly ends: string
}

/** The index of the tasks in each state. */
const INDEX_OF_STATE: Readonly<Record<number, string>> = {
  [State.budgeted]: 'task_budgeted',
  [State.scheduled]: 'task_scheduled',
  [State.ready]: 'task_ready',
  [State.alone]: 'task_alone',
  [State.running]: 'task_running',
}

const BEFORE_ALL = { changedAt: Number.MAX_SAFE_INTEGER, id: '' }

const STATES = Object.values(State)

const STATUSES = [...new Set(STATES.map(statusOf))]

const MATCHES_LANE = /* sql */ `
  (:kind IS NULL OR lane.kind = :kind)
  AND (:category IS NULL OR lane.category = :category)
  AND (:key IS NULL OR lane.key = :key)`

const MATCHES_FAILURE = /* sql */ `
  (:error_code IS NULL OR task.error_code = :error_code)
  AND (:failure_group IS NULL OR task.failure_group = :failure_group)`

/** An index that finds tasks by their failure, and the conditions under which it does. */
interface Failed {
  readonly index: string
  readonly condition: string
}

const WITH_CODE: Failed = { index: 'task_error', condition: 'task.error_code = :error_code AND task.state <> 3' }
const IN_GROUP: Failed = { index: 'task_group', condition: 'task.failure_group = :failure_group AND task.state <> 3' }
/** Running tasks are in neither index, and few. */
const RUNNING: Failed = { index: 'task_running', condition: 'task.state = 3' }

/** The columns of a `LaneRow`, from `lane` joined with `shared_limit`. */
export const LANE_COLUMNS = /* sql */ `
  lane.kind, lane.category, lane.key, lane.paused, lane.held_until, lane.held_by, lane.running, lane.concurrency,
  lane.per_second, lane.ordered, lane.blocking,
  CASE WHEN lane.blocking THEN ${firstLetter('lane.id')} END AS blocked_by, shared_limit.limits AS shared_limits, shared_limit.state AS shared_state,
  shared_limit.quota`

/** Reads tasks, their history, counts and lanes. */
export class Browser {
  readonly #db: Connection
  readonly #get
  readonly #attempt
  readonly #ledger
  readonly #payload
  readonly #count
  readonly #countErrors
  readonly #countGroup
  readonly #laneCounts
  readonly #deadByGroup
  readonly #lanes
  readonly #lists
  readonly #listErrors
  readonly #listGroup

  constructor(db: Connection) {
    this.#db = db
    this.#get = db.prepare<[string], TaskRow>(/* sql */ `
      SELECT ${taskColumns()} FROM task JOIN lane ON lane.id = task.lane WHERE task.id = ?`)
    this.#attempt = db.prepare<[string], InlineAttempt>(/* sql */ `
      SELECT seq, state, entries, ran_from, ran_to, ran_attempt, worker, lane.category, version, call,
             ${inlineTrace('ledger WHERE ledger.task = task.seq')} AS trace, release
      FROM task JOIN lane ON lane.id = task.lane WHERE task.id = ?`)
    this.#ledger = db.prepare<[number], EntryRow>(/* sql */ `SELECT * FROM ledger WHERE task = ? ORDER BY sequence`)
    this.#payload = db.prepare<[string], string>(/* sql */ `SELECT payload FROM task WHERE id = ?`).pluck()
    this.#count = db.prepare<object, Record<TaskStatus, number>>(/* sql */ `
      SELECT ifnull(sum(waiting), 0)   AS waiting,   ifnull(sum(running), 0) AS running,
             ifnull(sum(succeeded), 0) AS succeeded, ifnull(sum(skipped), 0) AS skipped,
             ifnull(sum(dead), 0)      AS dead,      ifnull(sum(cancelled), 0) AS cancelled
      FROM lane WHERE ${MATCHES_LANE}`)
    const countFailed = (of: Failed) =>
      [of, RUNNING].map(({ index, condition }) =>
        db.prepare<object, { state: number; count: number }>(/* sql */ `
          SELECT task.state, count(*) AS count FROM task INDEXED BY ${index} JOIN lane ON lane.id = task.lane
          WHERE ${condition} AND ${MATCHES_FAILURE} AND ${MATCHES_LANE}
          GROUP BY task.state`),
      )
    this.#countErrors = countFailed(WITH_CODE)
    this.#countGroup = countFailed(IN_GROUP)
    this.#laneCounts = db.prepare<object, Lane & { id: number } & Record<TaskStatus, number>>(/* sql */ `
      SELECT id, kind, category, key, waiting, running, succeeded, skipped, dead, cancelled
      FROM lane WHERE ${MATCHES_LANE}`)
    this.#deadByGroup = db.prepare<{ kind: string | null; group: string | null }, DeadOfGroup>(/* sql */ `
      WITH figures AS (
        SELECT known.kind, known.id, sum(dead) AS count
        FROM failure_group AS known JOIN group_tally ON group_tally.failure_group = known.id
        WHERE (:kind IS NULL OR known.kind = :kind) AND (:group IS NULL OR known.id = :group)
        GROUP BY known.id
      )
      SELECT kind, id AS "group", count FROM figures
      UNION ALL
      -- Dead letters in no group.
      SELECT kind, NULL, sum(dead) - ifnull((SELECT sum(count) FROM figures WHERE figures.kind = lane.kind), 0)
      FROM lane WHERE :group IS NULL AND (:kind IS NULL OR kind = :kind) GROUP BY kind`)
    this.#lanes = db.prepare<object, LaneRow>(/* sql */ `
      SELECT ${LANE_COLUMNS}
      FROM lane LEFT JOIN shared_limit ON shared_limit.id = lane.shared
      WHERE ${MATCHES_LANE}
      ORDER BY lane.kind, lane.category, lane.key`)
    this.#lists = STATES.flatMap(state =>
      indexesOf(state).map(index => ({ status: statusOf(state), ...listed(db, index, `task.state = ${state}`) })),
    )
    const listFailed = (of: Failed) =>
      STATES.map(state => {
        const { index, condition } = state === State.running ? RUNNING : of
        const isOfState = `${condition} AND task.state = ${state} AND ${MATCHES_FAILURE}`
        return { status: statusOf(state), ...listed(db, index, isOfState) }
      })
    this.#listErrors = listFailed(WITH_CODE)
    this.#listGroup = listFailed(IN_GROUP)
  }

  get(id: string): TaskRecord | undefined {
    const row = this.#get.get(id)
    return row && taskRecord(row)
  }

  ledgers(ids: readonly string[]): LedgerRow[][] {
    return this.#db.transaction(() => ids.map(id => this.#historyOf(id)))()
  }

  payloads(ids: readonly string[]): (string | undefined)[] {
    return ids.map(id => this.#payload.get(id))
  }

  /** Reads up to a page of each state that matches, and merges them. */
  list(filter: ColumnFilter, { limit, after }: PageRequest): Page<TaskRecord> {
    const rows = this.#merged<TaskRow>(filter, { limit: limit + 1, after }, ({ statement }) => statement)
    return taskPage(rows.map(taskRecord), limit)
  }

  /** The places of the tasks that `list` gives. */
  places(filter: ColumnFilter, page: PageRequest): TaskPlace[] {
    const rows = this.#merged<PlaceRow>(filter, page, ({ places }) => this.#db.prepare<object, PlaceRow>(places))
    return rows.map(({ id, changed_at: changedAt }) => ({ id, changedAt }))
  }

  #merged<Row extends PlaceRow>(
    filter: ColumnFilter,
    { limit, after }: PageRequest,
    statementOf: (listed: Listed) => Statement<object, Row>,
  ): Row[] {
    const byError = filter.errorCode === undefined ? this.#lists : this.#listErrors
    const statements = filter.group === undefined ? byError : this.#listGroup
    const { changedAt, id } = after === undefined ? BEFORE_ALL : taskPlace(after)
    const rows = this.#db.transaction(() => {
      const { lanes, isIn } = this.#lanesOf(filter)
      const values = { lanes, ...failureValues(filter), changed_at: changedAt, id, limit }
      return statements
        .filter(({ status }) => (filter.status === undefined || status === filter.status) && isIn(status))
        .flatMap(listed => statementOf(listed).all(values))
    })()
    rows.sort((a, b) => b.changed_at - a.changed_at || compareTexts(b.id, a.id))
    return rows.slice(0, limit)
  }

  count(filter: ColumnFilter): Record<TaskStatus, number> {
    if (isByGroup(filter, [])) return { ...noTasks(), dead: this.countBy(filter, [])[0]?.count ?? 0 }
    const counts = noTasks()
    if (filter.errorCode === undefined && filter.group === undefined) {
      Object.assign(counts, this.#count.get(laneValues(filter)))
    } else {
      const statements = filter.group === undefined ? this.#countErrors : this.#countGroup
      const values = { ...laneValues(filter), ...failureValues(filter) }
      const rows = this.#db.transaction(() => statements.flatMap(statement => statement.all(values)))()
      for (const { state, count } of rows) counts[statusOf(state)] += count
    }
    return countsWithin(counts, filter.status)
  }

  countBy(filter: ColumnFilter, fields: readonly CountField[]): TaskCount[] {
    if (isByLane(filter, fields)) {
      const counts = this.#db.prepare<object, Lane & Record<TaskStatus, number>>(laneCounts(fields))
      return addUpLanes(counts.all(laneValues(filter)), filter, fields)
    }
    if (isByGroup(filter, fields)) {
      const { kind = null, group = null } = filter
      return addUpGroups(this.#deadByGroup.all({ kind, group }), fields)
    }
    const values = { ...laneValues(filter), ...failureValues(filter) }
    const states = STATES.filter(state => filter.status === undefined || statusOf(state) === filter.status)
    const rows = this.#db.transaction(() =>
      states.flatMap(state =>
        (filter.group === undefined || state === State.running ? indexesOf(state) : [IN_GROUP.index]).flatMap(index =>
          this.#db.prepare<object, CountRow>(counting(index, state, fields)).all(values),
        ),
      ),
    )()
    return addUp(
      rows.map(({ state, kind, category, key, errorCode, reason, group, count }) => {
        const lane = { kind: kind ?? undefined, category: category ?? undefined, key: key ?? undefined }
        const status = statusOf(state)
        const failure = { errorCode: errorCode ?? undefined, reason: reason ?? undefined, group: group ?? undefined }
        return { ...lane, status, ...failure, count }
      }),
      fields,
    )
  }

  retried(since: number, { limit, after = '0' }: PageRequest): Page<RetriedTask> {
    const rows = this.#db.prepare<[number, number, number], RetriedRow>(RETRIED).all(numberPlace(after), since, limit)
    const items = rows.map(({ id, kind, succeeded, ends }) => {
      return { id, kind, hasSucceeded: succeeded === 1, ends: JSON.parse(ends) as RetriedTask['ends'] }
    })
    return fullPage(items, limit, String(rows.at(-1)?.seq))
  }

  lanes(filter: Partial<Lane>, now: number): LaneRecord[] {
    return this.#lanes.all(laneValues(filter)).map(row => laneRecord(row, now))
  }

  /** The lanes that match, as a JSON array, and the statuses that tasks of these lanes are in; `null` stands for all lanes. */
  #lanesOf(filter: Partial<Lane>): { readonly lanes: string | null; readonly isIn: (status: TaskStatus) => boolean } {
    const values = laneValues(filter)
    if (Object.values(values).every(value => value === null)) return { lanes: null, isIn: () => true }
    const lanes = this.#laneCounts.all(values)
    const statuses = new Set(STATUSES.filter(status => lanes.some(lane => lane[status] > 0)))
    return { lanes: JSON.stringify(lanes.map(({ id }) => id)), isIn: status => statuses.has(status) }
  }

  #historyOf(id: string): LedgerRow[] {
    const task = this.#attempt.get(id)
    if (task === undefined) return []
    const rows = this.#ledger.all(task.seq).map(ledgerRow)
    return rows.length < task.entries ? [...rows, inlineRow(task)] : rows
  }
}

/** The indexes of the tasks in a state. Those that have ended are in one of two. */
function indexesOf(state: number): readonly string[] {
  const index = INDEX_OF_STATE[state]
  return index === undefined ? Object.keys(IS_ENDED) : [index]
}

/** The conditions of indexes of tasks that have ended: of plain tasks, and of items of runs. */
const IS_ENDED: Readonly<Record<string, string>> = {
  task_ended: `AND task.state > 3 AND task.lane < ${FIRST_RUN_LANE}`,
  item_ended: `AND task.state > 3 AND task.lane >= ${FIRST_RUN_LANE}`,
}

/** A list of the tasks in a state, and the text of one of their places alone, which is seldom asked for. */
interface Listed {
  readonly statement: Statement<object, TaskRow>
  readonly places: string
}

function listed(db: Connection, index: string, condition: string): Listed {
  return {
    statement: db.prepare<object, TaskRow>(listing(index, condition, taskColumns())),
    places: listing(index, condition, 'task.id, task.changed_at'),
  }
}

/** Lists tasks from a place on, newest change first. The index gives that order where it has one. */
function listing(index: string, condition: string, columns: string): string {
  const isEnded = IS_ENDED[index] ?? ''
  return /* sql */ `
    SELECT ${columns}
    FROM task INDEXED BY ${index} JOIN lane ON lane.id = task.lane
    WHERE ${condition} ${isEnded}
      AND (task.changed_at < :changed_at OR (task.changed_at = :changed_at AND task.id < :id))
      AND task.changed_at <= :changed_at
      AND (:lanes IS NULL OR task.lane IN (SELECT value FROM json_each(:lanes)))
    ORDER BY task.changed_at DESC, task.id DESC
    LIMIT :limit + 0`
}

const COUNT_COLUMNS: Readonly<Record<CountField, string>> = {
  kind: 'lane.kind',
  category: 'lane.category',
  key: 'lane.key',
  status: 'task.state',
  errorCode: 'task.error_code',
  reason: 'task.reason',
  group: 'task.failure_group',
}

/** The counts of lanes, added up by the fields of lanes among these. */
function laneCounts(fields: readonly CountField[]): string {
  const { columns, grouped } = laneColumns(fields)
  return /* sql */ `
    SELECT ${columns}, sum(waiting) AS waiting, sum(running) AS running, sum(succeeded) AS succeeded,
           sum(skipped) AS skipped, sum(dead) AS dead, sum(cancelled) AS cancelled
    FROM lane WHERE ${MATCHES_LANE} ${grouped}`
}

/** Counts the tasks of a state by these fields. */
function counting(index: string, state: number, fields: readonly CountField[]): string {
  const columns = fields.filter(field => field !== 'status').map(field => `${COUNT_COLUMNS[field]} AS "${field}"`)
  const groups = ['task.state', ...fields.map(field => COUNT_COLUMNS[field])]
  return /* sql */ `
    SELECT ${['task.state', ...columns, 'count(*) AS count'].join(', ')}
    FROM task INDEXED BY ${index} JOIN lane ON lane.id = task.lane
    WHERE task.state = ${state} ${IS_ENDED[index] ?? ''}
      ${index === IN_GROUP.index ? `AND ${IN_GROUP.condition}` : ''}
      AND ${MATCHES_FAILURE} AND ${MATCHES_LANE}
    GROUP BY ${groups.join(', ')}`
}

/** Tasks that were retried after a failure since a time. An index would make every settlement slower for a report. */
const RETRIED = /* sql */ `
  SELECT task.seq, task.id, lane.kind, task.state = ${State.succeeded} AS succeeded, (
    SELECT json_group_array(json_object(
      'outcome', outcome, 'attempt', attempt, 'endedAt', ended_at,
      'category', ifnull(category, ''), 'policy', ifnull(policy, ''), 'code', ifnull(error_code, '')))
    FROM (SELECT * FROM ledger WHERE ledger.task = page.task ORDER BY sequence)
  ) AS ends
  FROM (
    SELECT DISTINCT task FROM ledger WHERE task > ? AND outcome = 'retry' AND ended_at >= ? ORDER BY task LIMIT ? + 0
  ) AS page
  JOIN task ON task.seq = page.task JOIN lane ON lane.id = task.lane
  ORDER BY page.task`

/** Converts a row to a record. */
export function laneRecord(row: LaneRow, now: number): LaneRecord {
  const shared = sharedOf(row)
  const isOwn = row.held_until >= (shared?.state.heldUntil ?? 0)
  const heldUntil = isOwn ? row.held_until : (shared?.state.heldUntil ?? 0)
  const isHeld = heldUntil > now
  return {
    kind: row.kind,
    category: row.category,
    key: row.key,
    isPaused: row.paused === 1,
    heldUntil: isHeld ? heldUntil : undefined,
    heldBy: isHeld ? (isOwn ? (row.held_by ?? undefined) : shared?.state.heldBy) : undefined,
    blockedBy: row.blocked_by ?? undefined,
    running: row.running,
    limits: laneLimits(row),
    shared: shared && sharedRecord(shared, row.quota, now),
  }
}

/** The shared limit of a lane. */
export function sharedOf({ shared_limits: limits, shared_state: state }: LaneRow) {
  return limits === null || state === null ? undefined : parsedShared({ limits, state })
}

function sharedRecord(
  { limits, state }: { readonly limits: SharedLimits; readonly state: SharedState },
  quota: string | null,
  now: number,
): LaneRecord['shared'] {
  return { limits, pace: paceAt(state, now), ...(quota !== null && { quota }) }
}

function laneValues({ kind, category, key }: Partial<Lane>) {
  return { kind: kind ?? null, category: category ?? null, key: key ?? null }
}

function failureValues({ errorCode, group }: ColumnFilter) {
  return { error_code: errorCode ?? null, failure_group: group ?? null }
}

/** The attempt that a task succeeded with. The task's own row keeps it. */
function inlineRow(task: InlineAttempt): LedgerRow {
  const { entries, ran_from, ran_to, ran_attempt, worker, category, version, call, trace, release } = task
  return {
    sequence: entries,
    category: category || undefined,
    attempt: ran_attempt,
    startedAt: ran_from,
    endedAt: ran_to,
    worker,
    outcome: 'succeeded',
    delayMs: undefined,
    reason: undefined,
    version: version ?? undefined,
    call: call ?? undefined,
    trace: trace ?? undefined,
    release: release ?? undefined,
  }
}
