import type { CountField } from '../contract/list.js'
import type { TaskStatus } from '../contract/task.js'
import { laneColumns } from '../rules/count-by.js'
import { MATCHES_LANE, PLACES } from './listing.js'

/** Counts the tasks of each status, as lanes have them. */
export const COUNT = /* sql */ `
  SELECT coalesce(sum(waiting), 0)   AS waiting,   coalesce(sum(running), 0) AS running,
         coalesce(sum(succeeded), 0) AS succeeded, coalesce(sum(skipped), 0) AS skipped,
         coalesce(sum(dead), 0)      AS dead,      coalesce(sum(cancelled), 0) AS cancelled
  FROM redrive.tally JOIN redrive.lane ON lane.id = tally.lane
  WHERE ${MATCHES_LANE}`

/**
 * The statement that counts the tasks with an error code. Dead letters are told by their own row. Whether any other task
 * waits or runs is in other tables.
 */
export function countErrors(status: TaskStatus | undefined): string {
  return status === 'dead' ? COUNT_DEAD_ERRORS : COUNT_ERRORS
}

const COUNT_DEAD_ERRORS = /* sql */ `
  SELECT count(*) AS dead FROM redrive.task JOIN redrive.lane ON lane.id = task.lane
  WHERE task.error_code = $4 AND task.state = redrive.state_dead() AND ${MATCHES_LANE}`

const COUNT_ERRORS = /* sql */ `
  SELECT count(*) FILTER (WHERE state < redrive.state_running())    AS waiting,
         count(*) FILTER (WHERE state = redrive.state_running())    AS running,
         count(*) FILTER (WHERE state = redrive.state_succeeded())  AS succeeded,
         count(*) FILTER (WHERE state = redrive.state_skipped())    AS skipped,
         count(*) FILTER (WHERE state = redrive.state_dead())       AS dead,
         count(*) FILTER (WHERE state = redrive.state_cancelled())  AS cancelled
  FROM redrive.standing AS task JOIN redrive.lane ON lane.id = task.lane
  WHERE task.error_code = $4 AND ${MATCHES_LANE}`

/** Counts the tasks of a group. */
export const COUNT_GROUP = /* sql */ `
  SELECT count(waiting.task) AS waiting,
         count(*) FILTER (WHERE failure_state = redrive.state_running() AND waiting.task IS NULL) AS running,
         0 AS succeeded, 0 AS skipped,
         count(*) FILTER (WHERE failure_state = redrive.state_dead())      AS dead,
         count(*) FILTER (WHERE failure_state = redrive.state_cancelled()) AS cancelled
  FROM redrive.task
  LEFT JOIN LATERAL redrive.waiting_of(task) AS waiting ON task.failure_state = redrive.state_running()
  JOIN redrive.lane ON lane.id = task.lane
  WHERE task.failure_group = $5 AND task.failure_state IS NOT NULL
    AND ($4::text IS NULL OR task.error_code = $4) AND ${MATCHES_LANE}`

/** The counts of lanes, added up by the fields of lanes among these. */
export function laneCounts(fields: readonly CountField[]): string {
  const { columns, grouped } = laneColumns(fields)
  return /* sql */ `
    SELECT ${columns}, sum(waiting) AS waiting, sum(running) AS running, sum(succeeded) AS succeeded,
      sum(skipped) AS skipped, sum(dead) AS dead, sum(cancelled) AS cancelled
    FROM redrive.tally JOIN redrive.lane ON lane.id = tally.lane
    WHERE ${MATCHES_LANE}
    ${grouped}`
}

/** Dead letters by group, and those in none, which the counts of lanes leave over. */
export const DEAD_BY_GROUP = /* sql */ `
  WITH figures AS (
    SELECT known.kind, known.id, sum(group_tally.dead) AS count
    FROM redrive.failure_group AS known JOIN redrive.group_tally ON group_tally.failure_group = known.id
    WHERE ($1::text IS NULL OR known.kind = $1) AND ($2::text IS NULL OR known.id = $2)
    GROUP BY known.id
  )
  SELECT kind, id AS "group", count FROM figures
  UNION ALL
  SELECT lane.kind, NULL, sum(tally.dead) - coalesce((SELECT sum(count) FROM figures WHERE figures.kind = lane.kind), 0)
  FROM redrive.tally JOIN redrive.lane ON lane.id = tally.lane
  WHERE $2::text IS NULL AND ($1::text IS NULL OR lane.kind = $1)
  GROUP BY lane.kind`

const COUNT_COLUMNS: Readonly<Record<CountField, string>> = {
  kind: 'lane.kind',
  category: 'lane.category',
  key: 'lane.key',
  status: 'status.status',
  errorCode: 'task.error_code',
  reason: 'task.reason',
  group: /* sql */ `CASE WHEN task.failure_state IS NOT NULL THEN task.failure_group END`,
}

/** All tasks that have ended in a state are looked at, so the planner is free to join them as it likes. */
function allEndedAs(status: TaskStatus): string {
  return /* sql */ `
    redrive.ended CROSS JOIN unnest(ended.tasks) AS one (id)
    JOIN redrive.task ON task.id = one.id AND task.changed_at = ended.at
      AND task.state = redrive.state_${status}() AND ended.state = redrive.state_${status}()
    JOIN redrive.lane ON lane.id = task.lane`
}

/** The statement that counts the tasks of each status by these fields. */
export function counting(statuses: readonly TaskStatus[], fields: readonly CountField[], isOfGroup: boolean): string {
  const columns = fields.map(field => COUNT_COLUMNS[field])
  const named = fields.map((field, index) => `${columns[index]} AS "${field}"`)
  const parts = statuses.map(status => {
    const from = status === 'waiting' || status === 'running' ? PLACES[status].from : allEndedAs(status)
    const isGroup = isOfGroup ? 'task.failure_group = $5 AND task.failure_state IS NOT NULL' : '$5::text IS NULL'
    return /* sql */ `
      SELECT ${[...named, 'count(*) AS count'].join(', ')}
      FROM ${from} CROSS JOIN (SELECT '${status}' AS status) AS status
      WHERE ($4::text IS NULL OR task.error_code = $4) AND ${MATCHES_LANE} AND ${isGroup}
      ${columns.length === 0 ? 'HAVING count(*) > 0' : `GROUP BY ${columns.join(', ')}`}`
  })
  return parts.join(' UNION ALL ')
}
