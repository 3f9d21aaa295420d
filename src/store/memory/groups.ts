import type { GroupRule, GroupRules, NewGroupRule, Regrouping } from '../contract/group-rule.js'
import type {
  FailureGroup,
  GroupFilter,
  GroupLife,
  GroupMark,
  GroupRecord,
  GroupStore,
} from '../contract/group-store.js'
import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import type { TaskRecord } from '../contract/task.js'
import { checkBy, checkGroupFilter, checkGroupId, checkMark, checkName, checkPage } from '../rules/check.js'
import { taskPlace } from '../rules/cursor.js'
import { checkRegrouping } from '../rules/groups/check-rule.js'
import {
  countOf,
  isOther,
  isReserved,
  MAX_GROUPS,
  MAX_OTHER_GROUPS,
  otherGroup,
  restGroup,
} from '../rules/groups/failure-group.js'
import { groupPage, isSeenBefore } from '../rules/groups/group-page.js'
import { inheritedLife, lifeAfterFailure, lifeAfterMark, lifeNow, NEW } from '../rules/groups/life.js'
import { hourOf, trendOf } from '../rules/groups/trend.js'
import type { LedgerChange } from '../rules/ledger-change.js'
import { markRecord } from '../rules/operator-record.js'
import { MemoryGroupRules } from './group-rules.js'
import type { MemoryTask } from './task.js'

interface MemoryGroup {
  readonly facts: FailureGroup
  firstSeenAt: number
  lastSeenAt: number
  retrying: number
  dead: number
  seen: number
  /** Failures by hour. */
  readonly hours: Map<number, number>
  life: GroupLife
}

/** The parts of the store that its groups need. */
export interface GroupHost {
  now(): number
  /** The releases that live workers report. */
  releases(): readonly string[]
  record(record: string): void
  task(id: string): MemoryTask | undefined
  readonly tasks: ReadonlyMap<string, MemoryTask>
}

/** The failure groups of the memory store. */
export class MemoryGroups implements GroupStore {
  readonly #groups = new Map<string, MemoryGroup>()
  readonly #rules: MemoryGroupRules
  readonly #host: GroupHost

  constructor(host: GroupHost) {
    this.#host = host
    this.#rules = new MemoryGroupRules(host)
  }

  async get(id: string): Promise<GroupRecord | undefined> {
    checkGroupId(id)
    const group = this.#groups.get(id)
    return group && recordOf(group, this.#host.now())
  }

  async list(filter: GroupFilter, { limit, after }: PageRequest): Promise<Page<GroupRecord>> {
    checkGroupFilter(filter)
    checkPage({ limit })
    const from = after === undefined ? undefined : taskPlace(after)
    const now = this.#host.now()
    const found = [...this.#groups.values()]
      .filter(({ facts }) => filter.kind === undefined || facts.kind === filter.kind)
      .map(group => recordOf(group, now))
      .filter(record => from === undefined || isSeenBefore(record, { lastSeenAt: from.changedAt, id: from.id }))
    return groupPage(found, filter, limit)
  }

  async mark(id: string, mark: GroupMark, by: By): Promise<boolean> {
    checkGroupId(id)
    checkMark(mark)
    checkName('who', by?.who)
    checkBy(by)
    const group = this.#groups.get(id)
    if (group === undefined) return false
    const now = this.#host.now()
    group.life = lifeAfterMark(mark, by, { now, seen: group.seen, releases: this.#host.releases() })
    this.#host.record(markRecord(id, mark, by, now))
    return true
  }

  async rules(): Promise<GroupRules> {
    return this.#rules.list()
  }

  async addRule(rule: NewGroupRule, by: By): Promise<GroupRule> {
    return this.#rules.add(rule, by)
  }

  async removeRule(id: number, by: By): Promise<boolean> {
    return this.#rules.remove(id, by)
  }

  async regrouped(grouping: string): Promise<void> {
    checkName('grouping', grouping)
    this.#rules.regrouped(grouping)
  }

  async regroup(regrouping: Regrouping): Promise<number> {
    checkRegrouping(regrouping)
    const { from, heir, moves } = regrouping
    const left = this.#groups.get(from)
    if (heir !== undefined && left !== undefined) this.#inherit(left, heir)
    const moved = moves.filter(({ task, to }) => this.#move(this.#host.task(task), from, to, heir?.id))
    if (heir !== undefined && !this.#named().has(from)) this.#groups.delete(from)
    return moved.length
  }

  /** Gives the figures and the life of a group to another one. */
  #inherit(left: MemoryGroup, facts: FailureGroup): void {
    const heir = this.#groups.get(facts.id) ?? this.#add(facts, left.firstSeenAt)
    if (heir === left) return
    heir.life = inheritedLife(left.life, heir)
    heir.seen += left.seen
    for (const [hour, seen] of left.hours) heir.hours.set(hour, (heir.hours.get(hour) ?? 0) + seen)
    heir.firstSeenAt = Math.min(heir.firstSeenAt, left.firstSeenAt)
    heir.lastSeenAt = Math.max(heir.lastSeenAt, left.lastSeenAt)
    left.seen = 0
    left.hours.clear()
  }

  /** Moves a task to another group, which counts its last failure unless it is the heir. Returns whether it could. */
  #move(task: MemoryTask | undefined, from: string, facts: FailureGroup, heir: string | undefined): boolean {
    const at = task?.ledger.findLastIndex(row => row.group === from) ?? -1
    const row = task?.ledger[at]
    if (task?.record.group !== from || facts.id === from || row === undefined) return false
    const group = this.#groups.get(facts.id) ?? (this.#isFull(facts) ? undefined : this.#add(facts, row.endedAt))
    if (group === undefined) return false
    const before = task.record
    task.record = { ...before, group: facts.id }
    task.ledger[at] = { ...row, group: facts.id }
    this.moved(before, task.record)
    if (facts.id !== heir) this.#see(group, row.endedAt)
    return true
  }

  #see(group: MemoryGroup, at: number): void {
    const hour = hourOf(at)
    group.seen++
    group.hours.set(hour, (group.hours.get(hour) ?? 0) + 1)
    group.firstSeenAt = Math.min(group.firstSeenAt, at)
    group.lastSeenAt = Math.max(group.lastSeenAt, at)
  }

  /** Counts a failed attempt. Returns the id of its group, which is another one if its kind has too many. */
  failed(facts: FailureGroup, ledger: LedgerChange, now: number): string {
    const group = this.#groups.get(facts.id) ?? this.#make(facts, now)
    group.life = lifeAfterFailure(group.life, ledger, now)
    this.#see(group, now)
    return group.facts.id
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
    const facts = this.#isFull(asked) ? this.#otherGroup(asked) : asked
    return this.#groups.get(facts.id) ?? this.#add(facts, now)
  }

  #otherGroup(asked: FailureGroup): FailureGroup {
    const other = otherGroup(asked)
    const isOneOfFew = this.#groups.has(other.id) || this.#countOf(asked.kind, isOther) < MAX_OTHER_GROUPS
    return isOneOfFew ? other : restGroup(asked)
  }

  /** Whether the kind of a group has no place for another one. */
  #isFull(asked: FailureGroup): boolean {
    return !isReserved(asked) && this.#countOf(asked.kind, facts => !isReserved(facts)) >= MAX_GROUPS
  }

  #countOf(kind: string, isMeant: (facts: FailureGroup) => boolean): number {
    return [...this.#groups.values()].filter(({ facts }) => facts.kind === kind && isMeant(facts)).length
  }

  #add(facts: FailureGroup, now: number): MemoryGroup {
    const times = { firstSeenAt: now, lastSeenAt: now }
    const group = { facts, ...times, retrying: 0, dead: 0, seen: 0, hours: new Map<number, number>(), life: NEW }
    this.#groups.set(facts.id, group)
    return group
  }
}

function recordOf({ facts, hours, life, ...figures }: MemoryGroup, now: number): GroupRecord {
  const trend = trendOf(hours, now)
  return { ...facts, ...figures, trend, life: lifeNow(life, { seen: figures.seen, trend }, now) }
}
