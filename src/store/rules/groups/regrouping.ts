import type { Regrouping } from '../../contract/group-rule.js'
import type { FailureGroup } from '../../contract/group-store.js'
import { isReserved } from './failure-group.js'

type Move = Regrouping['moves'][number]

/** The moves of members of a group to other groups. Of several moves of a task, the first one counts. */
export function movesOf({ from, moves }: Regrouping, members: readonly string[]): Move[] {
  const left = new Set(members)
  return moves.filter(({ task, to }) => to.id !== from && left.delete(task))
}

/** The groups that moves need and that are not known, in the order of the moves. */
export function missingGroups(moves: readonly Move[], known: ReadonlySet<string>): FailureGroup[] {
  const missing = new Map<string, FailureGroup>()
  for (const { to } of moves) if (!known.has(to.id) && !missing.has(to.id)) missing.set(to.id, to)
  return [...missing.values()]
}

/** The first of these groups: those for which their kinds have places. */
export function placedGroups(groups: readonly FailureGroup[], places: ReadonlyMap<string, number>): FailureGroup[] {
  const left = new Map(places)
  return groups.filter(group => {
    if (isReserved(group)) return true
    const count = left.get(group.kind) ?? 0
    left.set(group.kind, count - 1)
    return count > 0
  })
}
