import type { FailureGroup, GroupLife } from '../contract/group-store.js'
import type { TaskStatus } from '../contract/task.js'
import {
  countOf,
  isReserved,
  MAX_GROUPS,
  MAX_OTHER_GROUPS,
  otherGroup,
  restGroup,
} from '../rules/groups/failure-group.js'
import { lifeAfterFailure, NEW } from '../rules/groups/life.js'
import { lifeOf, lifeRow } from '../rules/groups/life-row.js'
import { hourOf } from '../rules/groups/trend.js'
import type { LedgerChange } from '../rules/ledger-change.js'
import type { Statements } from './statements.js'

interface Tally {
  seen: number
  retrying: number
  dead: number
}

interface NamedGroup {
  readonly id: string
  life: GroupLife
}

/** Adds a group without figures, unless it exists. */
export function addGroup(statements: Statements, group: FailureGroup, firstSeenAt: number): void {
  const { id, kind, code, errorName, pattern, frames } = group
  statements.addGroup.run(id, kind, code, errorName, pattern, JSON.stringify(frames), firstSeenAt)
}

/**
 * The changes that a job makes to failure groups, collected so that each group is written once. Its twins are
 * `MemoryGroups.failed` and, on PostgreSQL, `make_groups`, `count_failures` and `note_regressions`.
 */
export class GroupBook {
  readonly #statements: Statements
  readonly #tallies = new Map<string, Tally>()
  /** The groups that failures of this job belong to, by the groups that they asked for. */
  readonly #named = new Map<string, NamedGroup>()
  #now = 0

  constructor(statements: Statements) {
    this.#statements = statements
  }

  /** The id of the group that failures of this job belong to, if one has asked for it before. */
  known(facts: FailureGroup): string | undefined {
    return this.#named.get(facts.id)?.id
  }

  /** Counts a failed attempt. Returns the id of its group, which is another one if its kind has too many. */
  failed(facts: FailureGroup, ledger: LedgerChange, now: number): string {
    let group = this.#named.get(facts.id)
    if (group === undefined) {
      group = this.#groupOf(facts, now)
      this.#named.set(facts.id, group)
    }
    this.#tallyOf(group.id, now).seen++
    const life = lifeAfterFailure(group.life, ledger, now)
    if (life !== group.life) this.#statements.markGroup.run({ id: group.id, ...lifeRow(life) })
    group.life = life
    return group.id
  }

  /** Counts a task that enters a status. */
  enter(group: string | null | undefined, status: TaskStatus, now: number): void {
    this.#count(group, status, 1, now)
  }

  /** Counts a task, or several, that leave a status. */
  leave(group: string | null | undefined, status: TaskStatus, now: number, count = 1): void {
    this.#count(group, status, -count, now)
  }

  write(): void {
    const hour = hourOf(this.#now)
    for (const [id, { seen, retrying, dead }] of this.#tallies) {
      if (seen === 0 && retrying === 0 && dead === 0) continue
      this.#statements.addToGroup.run(id, hour, seen, retrying, dead, seen > 0 ? this.#now : 0)
    }
  }

  #count(group: string | null | undefined, status: TaskStatus, change: number, now: number): void {
    const count = group ? countOf(status) : undefined
    if (group && count !== undefined) this.#tallyOf(group, now)[count] += change
  }

  #tallyOf(id: string, now: number): Tally {
    this.#now = now
    let tally = this.#tallies.get(id)
    if (tally === undefined) {
      tally = { seen: 0, retrying: 0, dead: 0 }
      this.#tallies.set(id, tally)
    }
    return tally
  }

  /** Makes the group of a failure when it is first seen. */
  #groupOf(asked: FailureGroup, now: number): NamedGroup {
    const { groupLife, groupsOfKind } = this.#statements
    const known = groupLife.get(asked.id)
    if (known !== undefined) return { id: asked.id, life: lifeOf(known) }
    const isFull = !isReserved(asked) && (groupsOfKind.get(asked.kind, MAX_GROUPS) ?? 0) >= MAX_GROUPS
    const group = isFull ? this.#otherGroup(asked) : asked
    addGroup(this.#statements, group, now)
    const made = groupLife.get(group.id)
    return { id: group.id, life: made === undefined ? NEW : lifeOf(made) }
  }

  #otherGroup(asked: FailureGroup): FailureGroup {
    const { groupLife, otherGroupsOfKind } = this.#statements
    const other = otherGroup(asked)
    if (groupLife.get(other.id) !== undefined) return other
    const others = otherGroupsOfKind.get(asked.kind, MAX_OTHER_GROUPS) ?? 0
    return others < MAX_OTHER_GROUPS ? other : restGroup(asked)
  }
}
