import type { LivingStanding, OperationTally } from '../../contract/operation-store.js'
import { AGE_LIMITS_MS } from '../../rules/operations/set.js'
import { FIRST_RUN_LANE } from '../../rules/runs/items.js'
import type { Preparer } from '../driver.js'
import { oncePerConnection } from './once-per-connection.js'
import { STANDING_COLUMNS, type StandingRow } from './standing-row.js'

/** The statements of operations by name, prepared on one connection. */
export type OperationStatements = ReturnType<typeof prepare>

/** Which members of a set to read. NULL matches all. */
export interface MemberScope {
  readonly kind: string | null
  readonly category: string | null
  readonly key: string | null
  readonly error_code: string | null
  readonly failure_group: string | null
  readonly until: number
  readonly now: number
  readonly at: number
  readonly id: string
  readonly limit: number
}

/** A member of a set, as it is in its tables. */
export interface MemberRow {
  readonly id: string
  readonly kind: string
  readonly category: string
  readonly key: string
  readonly changed_at: number
  readonly ordered: number
  readonly paused: number
  readonly standing: LivingStanding | null
}

interface NamedRow extends MemberRow {
  readonly state: number
  readonly cancel_requested: number
  readonly error_code: string | null
}

interface SurveyedRow {
  readonly kind: string
  readonly category: string
  readonly error_code: string | null
  readonly ordered: number
  readonly paused: number
  readonly standing: LivingStanding | null
  /** The number of the limits that their age exceeds. */
  readonly age: number
  readonly twin: number
  readonly count: number
}

const STANDING = /* sql */ `
  CASE WHEN task.state > 3 THEN NULL WHEN task.state = 3 THEN 'running' WHEN task.next_at <= :now THEN 'due'
    ELSE 'not_due' END`

const MEMBER = /* sql */ `
  task.id, lane.kind, lane.category, lane.key, task.changed_at, lane.ordered, lane.paused, ${STANDING} AS standing`

const MATCHES = /* sql */ `
  (:kind IS NULL OR lane.kind = :kind)
  AND (:category IS NULL OR lane.category = :category)
  AND (:key IS NULL OR lane.key = :key)
  AND (:error_code IS NULL OR task.error_code = :error_code)
  AND (:failure_group IS NULL OR task.failure_group = :failure_group)`

/** Plain tasks that are dead, and items of runs, which have an index of their own. */
const DEAD = [
  { index: 'task_ended', condition: `task.state = 6 AND task.state > 3 AND task.lane < ${FIRST_RUN_LANE}` },
  { index: 'item_ended', condition: `task.state = 6 AND task.state > 3 AND task.lane >= ${FIRST_RUN_LANE}` },
] as const

/** Tasks that have not ended, and that nobody has asked to end. */
const LIVING = [
  { index: 'task_budgeted', condition: 'task.state = -1' },
  { index: 'task_scheduled', condition: 'task.state = 0' },
  { index: 'task_ready', condition: 'task.state = 1' },
  { index: 'task_alone', condition: 'task.state = 2' },
  { index: 'task_running', condition: 'task.state = 3 AND task.cancel_requested = 0' },
] as const

interface Place {
  readonly index: string
  readonly condition: string
}

/** Dead tasks of an error code, and of a failure group: each has an index of its own. */
const DEAD_BY_ERROR = DEAD.map(({ condition }) => ({
  index: 'task_error',
  condition: `${condition} AND task.state <> 3 AND task.error_code = :error_code`,
}))
const DEAD_IN_GROUP = [
  { index: 'task_group', condition: 'task.failure_group = :failure_group AND task.state = 6 AND task.state <> 3' },
]

/** Whether another task has the key by now that a dead member had until it ended (`hasKey`). */
const HAS_TWIN = /* sql */ `
  task.state = 6 AND task.unique_while IS 'unfinished' AND EXISTS (
    SELECT 1 FROM unique_key AS own LEFT JOIN task AS twin ON twin.id = own.task
    WHERE own.kind = lane.kind AND own.key = task.unique_key AND (own.until > :now OR CASE
      WHEN own.next IS NOT NULL OR twin.unique_while = 'unfinished' THEN twin.state <= 3
      ELSE twin.unique_while = 'waiting' AND twin.state < 3
        AND twin.attempts + twin.deferrals + twin.losses + twin.has_steps = 0 END))`

const IS_OLDER = AGE_LIMITS_MS.map(limit => `(:now - task.changed_at >= ${limit})`).join(' + ')

function prepare(db: Preparer) {
  const dead = ({ index, condition }: Place) =>
    db.prepare<MemberScope, MemberRow>(/* sql */ `
      SELECT ${MEMBER} FROM task INDEXED BY ${index} JOIN lane ON lane.id = task.lane
      WHERE ${condition} AND task.changed_at <= :until AND task.changed_at >= :at
        AND (task.changed_at > :at OR task.id > :id)
        AND ${MATCHES}
      ORDER BY task.changed_at, task.id
      LIMIT :limit + 0`)
  const living = ({ index, condition }: Place) =>
    db.prepare<MemberScope, MemberRow>(/* sql */ `
      SELECT ${MEMBER} FROM task INDEXED BY ${index} JOIN lane ON lane.id = task.lane
      WHERE ${condition} AND task.submitted_at <= :until AND ${MATCHES}
      LIMIT :limit + 0`)
  const livingUpTo = db.prepare<
    Omit<MemberScope, 'at' | 'id' | 'limit'> & { after: string; last: string },
    MemberRow
  >(/* sql */ `
    SELECT ${MEMBER} FROM task JOIN lane ON lane.id = task.lane
    WHERE task.id > :after AND task.id <= :last AND task.state <= 3 AND task.cancel_requested = 0
      AND task.submitted_at <= :until AND ${MATCHES}
    ORDER BY task.id`)
  const survey = ({ index, condition }: Place, since: string) =>
    db.prepare<Omit<MemberScope, 'at' | 'id' | 'limit'>, SurveyedRow>(/* sql */ `
      SELECT lane.kind, lane.category, task.error_code, lane.ordered, lane.paused, ${STANDING} AS standing,
             ${IS_OLDER} AS age, ${HAS_TWIN} AS twin, count(*) AS count
      FROM task INDEXED BY ${index} JOIN lane ON lane.id = task.lane
      WHERE ${condition} AND ${since} <= :until AND ${MATCHES}
      GROUP BY 1, 2, 3, 4, 5, 6, 7, 8`)
  return {
    tally: db.prepare<[string], OperationTally>(/* sql */ `
      SELECT passed, failed, unanswered, succeeded, skipped, dead, cancelled FROM operation_tally WHERE operation = ?`),
    dropTally: db.prepare<[string]>(/* sql */ `DELETE FROM operation_tally WHERE operation = ?`),
    named: db.prepare<{ id: string; now: number }, NamedRow>(/* sql */ `
      SELECT ${MEMBER}, task.state, task.cancel_requested, task.error_code FROM task JOIN lane ON lane.id = task.lane
      WHERE task.id = :id`),
    dead: DEAD.map(dead),
    deadByError: DEAD_BY_ERROR.map(dead),
    deadInGroup: DEAD_IN_GROUP.map(dead),
    living: LIVING.map(living),
    lastOf: db.prepare<{ after: string; up_to: number }, { last: string | null; count: number }>(/* sql */ `
      SELECT max(id) AS last, count(*) AS count FROM (SELECT id FROM task WHERE id > :after ORDER BY id LIMIT :up_to + 0)`),
    livingUpTo,
    surveyDead: DEAD.map(place => survey(place, 'task.changed_at')),
    surveyGroup: DEAD_IN_GROUP.map(place => survey(place, 'task.changed_at')),
    surveyLiving: LIVING.map(place => survey(place, 'task.submitted_at')),
    deaths: db.prepare<
      [string],
      { kind: string; error_code: string | null; failure_group: string | null; count: number }
    >(/* sql */ `
      SELECT lane.kind, task.error_code, task.failure_group, count(*) AS count
      FROM task INDEXED BY task_operation JOIN lane ON lane.id = task.lane
      WHERE task.operation = ? AND task.state = 6
      GROUP BY 1, 2, 3`),
    moved: db.prepare<[string, string, number], { id: string; seq: number; lane: number; state: number }>(/* sql */ `
      SELECT id, seq, lane, state FROM task INDEXED BY task_operation
      WHERE operation = ? AND id > ? ORDER BY id LIMIT ? + 0`),
    standing: db.prepare<[number], StandingRow>(/* sql */ `SELECT ${STANDING_COLUMNS} FROM task WHERE seq = ?`),
    act: db.prepare<[number, number], { outcome: string; ended_at: number; before: string | null }>(/* sql */ `
      SELECT outcome, ended_at, before FROM ledger WHERE task = ? AND sequence = ?`),
    restore: db.prepare(/* sql */ `
      UPDATE task SET operation = NULL, answered = 0, changed_at = ?, payload = coalesce(?, payload) WHERE seq = ?`),
  }
}

/** The statements of operations of a connection. */
export const operationStatementsOf = oncePerConnection(prepare)
