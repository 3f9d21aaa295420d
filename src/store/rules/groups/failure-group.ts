import type { FailureGroup } from '../../contract/group-store.js'
import type { TaskStatus } from '../../contract/task.js'
import { storableName } from '../storable-name.js'

/** A kind with more groups than this has a message that varies in a way nobody can mask. */
export const MAX_GROUPS = 1000
/** Besides, a kind has a group of other failures for each of this many codes. PostgreSQL has both numbers too. */
export const MAX_OTHER_GROUPS = 100

/** The group of a kind's lost attempts. The worker's name is no part of it. */
export function lostGroup(kind: string): FailureGroup {
  const id = `lost:${kind}`
  return { id, kind, code: 'lost', errorName: '', pattern: 'the worker was lost', frames: [] }
}

/** The group of failures for which their kind has no more groups. */
export function otherGroup({ kind, code }: FailureGroup): FailureGroup {
  const id = otherId(kind, code)
  return { id, kind, code, errorName: '', pattern: 'other failures', frames: [] }
}

/** The group of other failures whose code has none, since its kind has too many codes. */
export function restGroup({ kind }: FailureGroup): FailureGroup {
  return otherGroup({ id: '', kind, code: '', errorName: '', pattern: '', frames: [] })
}

/** Whether a group has the failures of others. */
export function isOther({ id, kind, code }: FailureGroup): boolean {
  // Most ids show at once that it has not.
  return id.startsWith('other:') && id === otherId(kind, code)
}

/** Whether a group is one of the few that are made however many groups its kind has. */
export function isReserved(group: FailureGroup): boolean {
  return group.id === `lost:${group.kind}` || isOther(group)
}

/** Codes may be of any length, and ids are indexed. */
function otherId(kind: string, code: string): string {
  return `other:${kind}:${[...storableName(code)].slice(0, 100).join('')}`
}

/** The count of its group that a task in this status belongs to. */
export function countOf(status: TaskStatus | undefined): 'retrying' | 'dead' | undefined {
  if (status === 'waiting' || status === 'running') return 'retrying'
  return status === 'dead' ? 'dead' : undefined
}
