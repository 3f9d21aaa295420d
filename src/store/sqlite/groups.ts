import type { Regrouping } from '../contract/group-rule.js'
import type { FailureGroup, GroupLife } from '../contract/group-store.js'
import type { GroupPort } from '../port/group-port.js'
import type { TaskPlace } from '../rules/cursor.js'
import { countOf, MAX_GROUPS } from '../rules/groups/failure-group.js'
import type { KeptGroup } from '../rules/groups/group-record.js'
import { keptGroup } from '../rules/groups/group-row.js'
import { lifeRow } from '../rules/groups/life-row.js'
import { hourOf, trendFrom } from '../rules/groups/trend.js'
import { statusOf } from '../rules/task-state.js'
import { addGroup } from './group-book.js'
import type { SqliteParts } from './port.js'
import type { Statements } from './statements.js'

/** The primitives of failure groups on SQLite. `GroupBook` keeps the figures of settlements. */
export class SqliteGroupPort implements GroupPort {
  readonly #statements: Statements
  readonly #now: () => number

  constructor({ statements, now }: SqliteParts) {
    this.#statements = statements
    this.#now = now
  }

  get(id: string): KeptGroup | undefined {
    const row = this.#statements.group.get({ id, from: trendFrom(this.#now()) })
    return row && keptGroup(row)
  }

  list(kind: string | undefined, { changedAt: last_seen, id }: TaskPlace, limit: number): KeptGroup[] {
    const place = { kind: kind ?? null, last_seen, id, limit, from: trendFrom(this.#now()) }
    return this.#statements.groups.all(place).map(keptGroup)
  }

  lock(ids: readonly string[]): KeptGroup[] {
    return ids.flatMap(id => this.get(id) ?? [])
  }

  saveLife(id: string, life: GroupLife): void {
    this.#statements.markGroup.run({ id, ...lifeRow(life) })
  }

  lockMembers(id: string, tasks: readonly string[]): string[] {
    return tasks.filter(task => this.#statements.groupMember.get(task, id) !== undefined)
  }

  placesLeft(kind: string): number {
    return MAX_GROUPS - (this.#statements.groupsOfKind.get(kind, MAX_GROUPS) ?? 0)
  }

  add(groups: readonly FailureGroup[], firstSeenAt: number): void {
    for (const group of groups) addGroup(this.#statements, group, firstSeenAt)
  }

  inherit(left: string, heir: string): void {
    this.#statements.inheritFirstSeen.run({ left, heir })
    this.#statements.inheritFigures.run({ left, heir })
    this.#statements.clearSeen.run(left)
  }

  moveMembers(left: string, moves: Regrouping['moves'], heir: string | undefined): void {
    const { groupMember, setGroup, setLedgerGroup, addToGroup, setFirstSeen } = this.#statements
    for (const { task, to } of moves) {
      const member = groupMember.get(task, left)
      if (member === undefined) continue
      const { seq, sequence, state, ended_at: failedAt } = member
      setGroup.run({ seq, group: to.id })
      setLedgerGroup.run({ seq, sequence, group: to.id })
      const count = countOf(statusOf(state))
      const [retrying, dead] = [Number(count === 'retrying'), Number(count === 'dead')]
      const [seen, lastSeen] = to.id === heir ? [0, 0] : [1, failedAt]
      addToGroup.run(left, 0, 0, -retrying, -dead, 0)
      addToGroup.run(to.id, hourOf(failedAt), seen, retrying, dead, lastSeen)
      if (seen > 0) setFirstSeen.run(failedAt, to.id)
    }
  }

  forget(id: string): void {
    if (this.#statements.isNamed.get({ group: id }) !== 0) return
    this.#statements.forgetFigures.run(id)
    this.#statements.forgetGroup.run(id)
  }
}
