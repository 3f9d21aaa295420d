import type { TaskStatus } from '../contract/task.js'

/** The states of a task in the database. States that wait come first, states that have ended last. */
export const State = {
  /** Waits for its time, and then for its retry budget. */
  budgeted: -1,
  scheduled: 0,
  ready: 1,
  /** Ready, and to be run alone in its worker: workers died while running it. */
  alone: 2,
  running: 3,
  succeeded: 4,
  skipped: 5,
  dead: 6,
  cancelled: 7,
} as const

/** One of the numbers of `State`. */
export type StateNumber = (typeof State)[keyof typeof State]

const STATUS_BY_STATE: Readonly<Record<number, TaskStatus>> = {
  [State.budgeted]: 'waiting',
  [State.scheduled]: 'waiting',
  [State.ready]: 'waiting',
  [State.alone]: 'waiting',
  [State.running]: 'running',
  [State.succeeded]: 'succeeded',
  [State.skipped]: 'skipped',
  [State.dead]: 'dead',
  [State.cancelled]: 'cancelled',
}

/** The status that a state belongs to. */
export function statusOf(state: number): TaskStatus {
  const status = STATUS_BY_STATE[state]
  if (status === undefined) throw new RangeError(`A task has the state ${state}, which does not exist.`)
  return status
}

/** A count of 0 for every status. */
export function noTasks(): Record<TaskStatus, number> {
  return { waiting: 0, running: 0, succeeded: 0, skipped: 0, dead: 0, cancelled: 0 }
}

/** The counts that a filter on a status leaves: all without one. */
export function countsWithin(
  counts: Record<TaskStatus, number>,
  status: TaskStatus | undefined,
): Record<TaskStatus, number> {
  return status === undefined ? counts : { ...noTasks(), [status]: counts[status] }
}
