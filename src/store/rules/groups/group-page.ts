import type { GroupFilter, GroupRecord } from '../../contract/group-store.js'
import type { Page } from '../../contract/list.js'

/** The place of a group in a list. */
export type GroupPlace = Pick<GroupRecord, 'lastSeenAt' | 'id'>

/** Whether a group comes after another one in a list: it was seen before it, or has the lower id. */
export function isSeenBefore(a: GroupPlace, b: GroupPlace): boolean {
  return a.lastSeenAt === b.lastSeenAt ? a.id < b.id : a.lastSeenAt < b.lastSeenAt
}

/** The first page of those of these groups that are in one of the states. */
export function groupPage(
  all: readonly GroupRecord[],
  { states }: Pick<GroupFilter, 'states'>,
  limit: number,
): Page<GroupRecord> {
  const groups = states === undefined ? all : all.filter(({ life }) => states.includes(life.state))
  const items = [...groups].sort((a, b) => (isSeenBefore(a, b) ? 1 : -1)).slice(0, limit)
  const last = items.at(-1)
  return groups.length > limit && last !== undefined ? { items, next: `${last.lastSeenAt}:${last.id}` } : { items }
}
