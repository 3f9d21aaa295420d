import type { Regrouping } from '../contract/group-rule.js'
import type { FailureGroup } from '../contract/group-store.js'
import { countOf, isReserved, MAX_GROUPS } from '../rules/groups/failure-group.js'
import { inheritedLife, NEW } from '../rules/groups/life.js'
import { lifeOf, lifeRow } from '../rules/groups/life-row.js'
import { hourOf } from '../rules/groups/trend.js'
import { statusOf } from '../rules/task-state.js'
import type { Statements } from './statements.js'

/** Moves tasks from one group to others. Returns how many. Within a transaction. */
export function regroup(statements: Statements, { from, heir, moves }: Regrouping): number {
  if (heir !== undefined) inherit(statements, from, heir)
  const moved = moves.filter(({ task, to }) => move(statements, task, from, to, heir?.id))
  if (heir !== undefined && heir.id !== from && statements.isNamed.get({ group: from }) === 0) {
    statements.forgetFigures.run(from)
    statements.forgetGroup.run(from)
  }
  return moved.length
}

/** Gives the figures and the life of a group to its heir. */
function inherit(statements: Statements, left: string, heir: FailureGroup): void {
  const facts = statements.groupFacts.get(left)
  if (facts === undefined || heir.id === left) return
  add(statements, heir, facts.first_seen)
  const own = statements.groupFacts.get(heir.id)
  const seen = statements.groupSeen.get(heir.id) ?? 0
  const life = inheritedLife(lifeOf(facts), { life: own === undefined ? NEW : lifeOf(own), seen })
  statements.markGroup.run({ id: heir.id, ...lifeRow(life) })
  statements.setFirstSeen.run(facts.first_seen, heir.id)
  statements.inheritFigures.run({ heir: heir.id, left })
  statements.clearSeen.run(left)
}

/** Moves a task to another group, which counts its last failure unless it is the heir. Returns whether it could. */
function move(statements: Statements, id: string, from: string, to: FailureGroup, heir: string | undefined): boolean {
  const member = statements.groupMember.get(id, from)
  if (member === undefined || to.id === from) return false
  const { seq, sequence, state, ended_at: failedAt } = member
  if (statements.groupLife.get(to.id) === undefined) {
    if (isFull(statements, to)) return false
    add(statements, to, failedAt)
  }
  statements.setGroup.run({ seq, group: to.id })
  statements.setLedgerGroup.run({ seq, sequence, group: to.id })
  const count = countOf(statusOf(state))
  const [retrying, dead] = [Number(count === 'retrying'), Number(count === 'dead')]
  const [seen, lastSeen] = to.id === heir ? [0, 0] : [1, failedAt]
  statements.addToGroup.run(from, 0, 0, -retrying, -dead, 0)
  statements.addToGroup.run(to.id, hourOf(failedAt), seen, retrying, dead, lastSeen)
  if (seen > 0) statements.setFirstSeen.run(failedAt, to.id)
  return true
}

function isFull(statements: Statements, group: FailureGroup): boolean {
  return !isReserved(group) && (statements.groupsOfKind.get(group.kind, MAX_GROUPS) ?? 0) >= MAX_GROUPS
}

function add(statements: Statements, group: FailureGroup, firstSeen: number): void {
  const { id, kind, code, errorName, pattern, frames } = group
  statements.addGroup.run(id, kind, code, errorName, pattern, JSON.stringify(frames), firstSeen)
}
