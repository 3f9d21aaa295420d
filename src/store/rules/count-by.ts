import type { Lane } from '../contract/lane.js'
import type { CountField, TaskCount, TaskFilter } from '../contract/list.js'
import type { TaskStatus } from '../contract/task.js'
import { noTasks } from './task-state.js'

/** The fields that a lane knows of its tasks. The others are in the tasks alone. */
const LANE_FIELDS: ReadonlySet<CountField> = new Set(['kind', 'category', 'key', 'status'])

/** The fields that the figures of groups know of dead letters. */
const GROUP_FIELDS: ReadonlySet<CountField> = new Set(['kind', 'status', 'group'])

const STATUSES = Object.keys(noTasks()) as TaskStatus[]

/** Whether the counts of lanes answer it, which are few and at hand. */
export function isByLane({ errorCode, group }: TaskFilter, fields: readonly CountField[]): boolean {
  return errorCode === undefined && group === undefined && fields.every(field => LANE_FIELDS.has(field))
}

/** Whether the figures of groups answer it: dead letters by group, however many they are. */
export function isByGroup(filter: TaskFilter, fields: readonly CountField[]): boolean {
  const { status, category, key, errorCode, group } = filter
  if (status !== 'dead' || (category ?? key ?? errorCode) !== undefined) return false
  return (group !== undefined || fields.includes('group')) && fields.every(field => GROUP_FIELDS.has(field))
}

/** Dead letters of a group, or of none. */
export interface DeadOfGroup {
  readonly kind: string
  readonly group: string | null
  readonly count: number
}

/** Adds up the dead letters of groups. */
export function addUpGroups(groups: readonly DeadOfGroup[], fields: readonly CountField[]): TaskCount[] {
  const counts = groups.filter(({ count }) => count > 0)
  return addUp(
    counts.map(({ kind, group, count }) => ({ kind, status: 'dead', group: group ?? undefined, count })),
    fields,
  )
}

/** The columns of lanes to count by, for SQL: the others are left out, since there may be thousands of keys. */
export function laneColumns(fields: readonly CountField[]): { readonly columns: string; readonly grouped: string } {
  const asked = (['kind', 'category', 'key'] as const).filter(field => fields.includes(field))
  const columns = (['kind', 'category', 'key'] as const).map(name => (asked.includes(name) ? name : `'' AS ${name}`))
  return { columns: columns.join(', '), grouped: asked.length === 0 ? '' : `GROUP BY ${asked.join(', ')}` }
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
