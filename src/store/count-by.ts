import type { Lane } from './lane.js'
import type { CountField, TaskCount, TaskFilter } from './list.js'
import type { TaskStatus } from './task.js'
import { noTasks } from './task-state.js'

/** The fields that a lane knows of its tasks. The others are in the tasks alone. */
const LANE_FIELDS: ReadonlySet<CountField> = new Set(['kind', 'category', 'key', 'status'])

const STATUSES = Object.keys(noTasks()) as TaskStatus[]

/** Whether the counts of lanes answer it, which are few and at hand. */
export function isByLane({ errorCode, group }: TaskFilter, fields: readonly CountField[]): boolean {
  return errorCode === undefined && group === undefined && fields.every(field => LANE_FIELDS.has(field))
}

/** Adds up counts that agree in all fields. */
export function addUp(counts: Iterable<TaskCount>, fields: readonly CountField[]): TaskCount[] {
  const groups = new Map<string, TaskCount>()
  for (const one of counts) {
    const values = fields.map(field => one[field] ?? null)
    const name = JSON.stringify(values)
    const sum = (groups.get(name)?.count ?? 0) + one.count
    const named = fields.flatMap(field => (one[field] === undefined ? [] : [[field, one[field]] as const]))
    groups.set(name, { ...Object.fromEntries(named), count: sum })
  }
  return [...groups.values()]
}

/** Adds up the counts of lanes, by status. */
export function addUpLanes(
  lanes: Iterable<Lane & Readonly<Record<TaskStatus, number>>>,
  { status }: TaskFilter,
  fields: readonly CountField[],
): TaskCount[] {
  const statuses = status === undefined ? STATUSES : [status]
  return addUp(countsOf(lanes, statuses), fields)
}

function* countsOf(
  lanes: Iterable<Lane & Readonly<Record<TaskStatus, number>>>,
  statuses: readonly TaskStatus[],
): Generator<TaskCount> {
  for (const lane of lanes) {
    const { kind, category, key } = lane
    for (const status of statuses) {
      if (lane[status] > 0) yield { kind, category, key, status, count: lane[status] }
    }
  }
}
