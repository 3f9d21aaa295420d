import { checkBy, checkGroupFilter, checkGroupId, checkMark, checkName, checkPage } from '../check.js'
import { taskPlace } from '../cursor.js'
import type { FailureGroup, GroupFilter, GroupLife, GroupMark, GroupRecord, GroupStore } from '../group-store.js'
import { countOf, isReserved, MAX_GROUPS, otherGroup } from '../groups/failure-group.js'
import { groupPage, isSeenBefore } from '../groups/group-page.js'
import { lifeAfterFailure, lifeAfterMark, lifeNow, NEW } from '../groups/life.js'
import { hourOf, trendOf } from '../groups/trend.js'
import type { LedgerChange } from '../ledger-change.js'
import { markRecord } from '../operator-record.js'
import type { By, Page, PageRequest, TaskRecord } from '../store.js'

interface MemoryGroup {
  readonly facts: FailureGroup
  readonly firstSeenAt: number
  lastSeenAt: number
  retrying: number
  dead: number
  seen: number
  /** Failures by hour. */
  readonly hours: Map<number, number>
  life: GroupLife
}

/** The parts of the store that its groups need. */
interface GroupHost {
  readonly now: () => number
  /** The releases that live workers report. */
  readonly releases: () => readonly string[]
  readonly record: (record: string) => void
}

/** The failure groups of the memory store. */
export class MemoryGroups implements GroupStore {
  readonly #groups = new Map<string, MemoryGroup>()
  readonly #host: GroupHost

  constructor(host: GroupHost) {
    this.#host = host
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

  /** Counts a failed attempt. Returns the id of its group, which is another one if its kind has too many. */
  failed(facts: FailureGroup, ledger: LedgerChange, now: number): string {
    const group = this.#groups.get(facts.id) ?? this.#make(facts, now)
    group.seen++
    group.life = lifeAfterFailure(group.life, ledger, now)
    group.lastSeenAt = now
    const hour = hourOf(now)
    group.hours.set(hour, (group.hours.get(hour) ?? 0) + 1)
    return group.facts.id
  }

  /** Counts a task that has changed, is new or was deleted. */
  moved(before: TaskRecord | undefined, after: TaskRecord | undefined): void {
    this.#count(before, -1)
    this.#count(after, 1)
  }

  /** Deletes groups without tasks that were last seen up to a time. */
  prune(before: number): void {
    for (const [id, { retrying, dead, lastSeenAt }] of this.#groups) {
      if (retrying === 0 && dead === 0 && lastSeenAt <= before) this.#groups.delete(id)
    }
  }

  #count(task: TaskRecord | undefined, change: 1 | -1): void {
    const group = task?.group === undefined ? undefined : this.#groups.get(task.group)
    const count = countOf(task?.status)
    if (group !== undefined && count !== undefined) group[count] += change
  }

  #make(asked: FailureGroup, now: number): MemoryGroup {
    const groups = [...this.#groups.values()]
    const isFull = groups.filter(({ facts }) => facts.kind === asked.kind && !isReserved(facts)).length >= MAX_GROUPS
    const facts = isFull && !isReserved(asked) ? otherGroup(asked) : asked
    const known = this.#groups.get(facts.id)
    if (known !== undefined) return known
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
