import type { Regrouping } from '../contract/group-rule.js'
import type { FailureGroup, GroupLife } from '../contract/group-store.js'
import type { TaskRecord } from '../contract/task.js'
import type { GroupPort } from '../port/group-port.js'
import { comparePlaces, type TaskPlace } from '../rules/cursor.js'
import {
  countOf,
  isOther,
  isReserved,
  MAX_GROUPS,
  MAX_OTHER_GROUPS,
  otherGroup,
  restGroup,
} from '../rules/groups/failure-group.js'
import type { KeptGroup } from '../rules/groups/group-record.js'
import { lifeAfterFailure, NEW } from '../rules/groups/life.js'
import { hourOf } from '../rules/groups/trend.js'
import type { LedgerChange } from '../rules/ledger-change.js'
import type { MemoryTask } from './task.js'

type MemoryGroup = { -readonly [Field in keyof KeptGroup]: KeptGroup[Field] } & { readonly hours: Map<number, number> }

/** The parts of the store that its groups need. */
export interface GroupHost {
  task(id: string): MemoryTask | undefined
  readonly tasks: ReadonlyMap<string, MemoryTask>
}

/** The failure groups of a memory store: their primitives, and what follows from the life of tasks. */
export class MemoryGroups implements GroupPort {
  readonly #groups = new Map<string, MemoryGroup>()
  readonly #host: GroupHost

  constructor(host: GroupHost) {
    this.#host = host
  }

  get(id: string): KeptGroup | undefined {
    return this.#groups.get(id)
  }

  list(kind: string | undefined, before: TaskPlace, limit: number): KeptGroup[] {
    return [...this.#groups.values()]
      .filter(group => (kind === undefined || group.kind === kind) && comparePlaces(placeOf(group), before) < 0)
      .sort((a, b) => comparePlaces(placeOf(b), placeOf(a)))
      .slice(0, limit)
  }

  lock(ids: readonly string[]): KeptGroup[] {
    return ids.flatMap(id => this.get(id) ?? [])
  }

  saveLife(id: string, life: GroupLife): void {
    const group = this.#groups.get(id)
    if (group !== undefined) group.life = life
  }

  lockMembers(id: string, tasks: readonly string[]): string[] {
    return tasks.filter(task => this.#host.task(task)?.record.group === id)
  }

  placesLeft(kind: string): number {
    return MAX_GROUPS - this.#countOf(kind, facts => !isReserved(facts))
  }

  add(groups: readonly FailureGroup[], firstSeenAt: number): void {
    for (const facts of groups) this.#add(facts, firstSeenAt)
  }

  inherit(left: string, heir: string): void {
    const from = this.#groups.get(left)
    const to = this.#groups.get(heir)
    if (from === undefined || to === undefined) return
    to.seen += from.seen
    for (const [hour, seen] of from.hours) to.hours.set(hour, (to.hours.get(hour) ?? 0) + seen)
    to.firstSeenAt = Math.min(to.firstSeenAt, from.firstSeenAt)
    to.lastSeenAt = Math.max(to.lastSeenAt, from.lastSeenAt)
    from.seen = 0
    from.hours.clear()
    from.lastSeenAt = from.firstSeenAt
  }

  moveMembers(left: string, moves: Regrouping['moves'], heir: string | undefined): void {
    for (const { task: id, to } of moves) {
      const task = this.#host.task(id)
      const group = this.#groups.get(to.id)
      const at = task?.ledger.findLastIndex(row => row.group === left) ?? -1
      const row = task?.ledger[at]
      if (task === undefined || group === undefined || row === undefined) continue
      const before = task.record
      task.record = { ...before, group: to.id }
      task.ledger[at] = { ...row, group: to.id }
      this.moved(before, task.record)
      if (to.id !== heir) this.#see(group, row.endedAt)
    }
  }

  forget(id: string): void {
    if (!this.#named().has(id)) this.#groups.delete(id)
  }

  #see(group: MemoryGroup, at: number): void {
    const hour = hourOf(at)
    group.hours.set(hour, (group.hours.get(hour) ?? 0) + 1)
    group.firstSeenAt = Math.min(group.firstSeenAt, at)
    group.lastSeenAt = Math.max(group.seen === 0 ? group.firstSeenAt : group.lastSeenAt, at)
    group.seen++
  }

  /**
   * Counts a failed attempt. Returns the id of its group, which is another one if its kind has too many. Its twins are
   * `GroupBook` on SQLite, and `make_groups`, `count_failures` and `note_regressions` on PostgreSQL.
   */
  failed(facts: FailureGroup, ledger: LedgerChange, now: number): string {
    const group = this.#groups.get(facts.id) ?? this.#make(facts, now)
    group.life = lifeAfterFailure(group.life, ledger, now)
    this.#see(group, now)
    return group.id
  }

  /** Counts a task that has changed, is new or was deleted. */
  moved(before: TaskRecord | undefined, after: TaskRecord | undefined): void {
    this.#count(before, -1)
    this.#count(after, 1)
  }

  /** Deletes groups without tasks that were last seen up to a time. */
  prune(before: number): void {
    const named = this.#named()
    for (const [id, { lastSeenAt }] of this.#groups) if (lastSeenAt <= before && !named.has(id)) this.#groups.delete(id)
  }

  /** The groups that tasks name. A discarded letter does, too: it may come back. */
  #named(): ReadonlySet<string | undefined> {
    return new Set([...this.#host.tasks.values()].map(({ record }) => record.group))
  }

  #count(task: TaskRecord | undefined, change: 1 | -1): void {
    const group = task?.group === undefined ? undefined : this.#groups.get(task.group)
    const count = countOf(task?.status)
    if (group !== undefined && count !== undefined) group[count] += change
  }

  #make(asked: FailureGroup, now: number): MemoryGroup {
    const isPlaced = isReserved(asked) || this.placesLeft(asked.kind) > 0
    const facts = isPlaced ? asked : this.#otherGroup(asked)
    return this.#groups.get(facts.id) ?? this.#add(facts, now)
  }

  #otherGroup(asked: FailureGroup): FailureGroup {
    const other = otherGroup(asked)
    const isOneOfFew = this.#groups.has(other.id) || this.#countOf(asked.kind, isOther) < MAX_OTHER_GROUPS
    return isOneOfFew ? other : restGroup(asked)
  }

  #countOf(kind: string, isMeant: (facts: FailureGroup) => boolean): number {
    return [...this.#groups.values()].filter(group => group.kind === kind && isMeant(group)).length
  }

  #add(facts: FailureGroup, now: number): MemoryGroup {
    const times = { firstSeenAt: now, lastSeenAt: now }
    const group = { ...facts, ...times, retrying: 0, dead: 0, seen: 0, hours: new Map<number, number>(), life: NEW }
    this.#groups.set(facts.id, group)
    return group
  }
}

function placeOf({ lastSeenAt: changedAt, id }: KeptGroup): TaskPlace {
  return { changedAt, id }
}
