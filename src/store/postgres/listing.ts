import type { TaskStatus } from '../contract/task.js'
import { taskColumns } from '../rules/rows.js'

/** Whether a lane has the kind, category and key of a filter. */
export const MATCHES_LANE = /* sql */ `
  ($1::text IS NULL OR lane.kind = $1)
  AND ($2::text IS NULL OR lane.category = $2)
  AND ($3::text IS NULL OR lane.key = $3)`

/** Where the tasks of a status are found, and columns that are not in the task's own row. */
interface Place {
  readonly from: string
  readonly state?: string
  readonly changedAt?: string
  readonly nextAt: string
}

/**
 * The lane of each task is looked up. With a plan for any filter, the planner expects that one lane matches, and would read
 * all the tasks anew for each lane there is.
 */
const ITS_LANE = /* sql */ `
  CROSS JOIN LATERAL (SELECT * FROM redrive.lane WHERE lane.id = task.lane OFFSET 0) AS lane`

/**
 * Where the tasks of each status are found. A page of those that wait looks at all of these: an index of them by their last
 * change would make every task that is enqueued cost more.
 */
export const PLACES: Readonly<Record<TaskStatus, Place>> = {
  waiting: {
    // Tasks in other lanes are left out before they are looked up. The condition is a CASE, so that it never becomes a join.
    from: /* sql */ `
      redrive.waiting JOIN redrive.task ON task.id = waiting.task AND CASE
        WHEN $1::text IS NULL AND $2::text IS NULL AND $3::text IS NULL THEN true
        ELSE waiting.lane IN (SELECT id FROM redrive.lane WHERE ${MATCHES_LANE})
      END
      ${ITS_LANE}`,
    state: 'waiting.state',
    nextAt: 'waiting.next_at',
  },
  running: {
    from: /* sql */ `
      redrive.claim CROSS JOIN unnest(claim.tasks, claim.rounds) AS one (id, round)
      JOIN redrive.task ON task.id = one.id AND task.round = one.round AND task.state = redrive.state_running()
      ${ITS_LANE}`,
    changedAt: 'greatest(claim.at, task.changed_at)',
    nextAt: 'NULL::bigint',
  },
  succeeded: endedAs('succeeded'),
  skipped: endedAs('skipped'),
  dead: endedAs('dead'),
  cancelled: endedAs('cancelled'),
}
export const STATUSES = Object.keys(PLACES) as TaskStatus[]

function endedAs(status: TaskStatus): Place {
  return {
    from: /* sql */ `
      redrive.ended_page(redrive.state_${status}(), $1, $2, $3, $4, $5, $6, $7) AS task
      ${ITS_LANE}`,
    nextAt: 'NULL::bigint',
  }
}

/** The columns of a list, whole tasks by default. Those that are named come from where a status has them. */
type Columns = (from: { readonly state?: string; readonly changedAt: string; readonly nextAt: string }) => string

/** The columns of the places of a list. */
export const placeColumns: Columns = ({ changedAt }) => `task.id, ${changedAt} AS changed_at`

/** The statement for a page of each status, and of all these the newest changes. */
export function listing(statuses: readonly TaskStatus[], columnsOf: Columns = taskColumns): string {
  const parts = statuses.map(status => {
    const { from, changedAt = 'task.changed_at', ...columns } = PLACES[status]
    return /* sql */ `(
      SELECT ${columnsOf({ changedAt, ...columns })}
      FROM ${from}
      WHERE ($4::text IS NULL OR task.error_code = $4)
        AND ($5::bigint IS NULL OR (${changedAt}, task.id) < ($5, $6))
        AND ${MATCHES_LANE}
      ORDER BY ${changedAt} DESC, task.id DESC
      LIMIT $7
    )`
  })
  return `SELECT * FROM (${parts.join(' UNION ALL ')}) AS listed ORDER BY changed_at DESC, id DESC LIMIT $7`
}

/** The place of the last task of the page before; without one, behind all tasks. */
const BEFORE = /* sql */ `(coalesce($5::bigint, 9223372036854775807), coalesce($6::text, ''))`

interface GroupPlace extends Place {
  readonly changedAt: string
  /** The condition on the state that the index of groups has. */
  readonly isGroup: string
}

/** The tasks of a group, by the index of groups. Successes and skips have left theirs, so that it has none of them. */
const GROUP_PLACES: Readonly<Record<TaskStatus, GroupPlace>> = {
  waiting: {
    ...PLACES.waiting,
    from: /* sql */ `redrive.task CROSS JOIN LATERAL redrive.waiting_of(task) AS waiting ${ITS_LANE}`,
    changedAt: 'task.failure_at',
    isGroup: 'task.failure_state = redrive.state_running()',
  },
  running: { ...PLACES.running, changedAt: 'greatest(claim.at, task.changed_at)', isGroup: 'true' },
  succeeded: endedInGroup('succeeded'),
  skipped: endedInGroup('skipped'),
  dead: endedInGroup('dead'),
  cancelled: endedInGroup('cancelled'),
}

function endedInGroup(status: TaskStatus): GroupPlace {
  return {
    from: /* sql */ `redrive.task ${ITS_LANE}`,
    changedAt: 'task.failure_at',
    nextAt: 'NULL::bigint',
    isGroup: `task.failure_state = redrive.state_${status}()`,
  }
}

/** The statement for a page of each status of a group, and of all these the newest changes. */
export function listingGroup(statuses: readonly TaskStatus[], columnsOf: Columns = taskColumns): string {
  const parts = statuses.map(status => {
    const { from, changedAt, isGroup, ...columns } = GROUP_PLACES[status]
    return /* sql */ `(
      SELECT ${columnsOf({ changedAt, ...columns })}
      FROM ${from}
      WHERE task.failure_group = $8 AND ${isGroup}
        AND ($4::text IS NULL OR task.error_code = $4)
        AND (${changedAt}, task.id) < ${BEFORE}
        AND ${MATCHES_LANE}
      ORDER BY ${changedAt} DESC, task.id DESC
      LIMIT $7
    )`
  })
  return `SELECT * FROM (${parts.join(' UNION ALL ')}) AS listed ORDER BY changed_at DESC, id DESC LIMIT $7`
}
