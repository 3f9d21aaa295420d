import type { GroupRule, GroupRules, NewGroupRule, Regrouping } from '../contract/group-rule.js'
import type { FailureGroup, GroupFilter, GroupMark, GroupRecord, GroupStore } from '../contract/group-store.js'
import type { By } from '../contract/ledger.js'
import type { Page, PageRequest } from '../contract/list.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import { checkGroupFilter, checkGroupId, checkMark, checkName, checkPage, checkPerson } from '../rules/check.js'
import { NEWEST, pageByTime, taskPlace } from '../rules/cursor.js'
import { checkRegrouping, checkRule, checkRuleCount, checkRuleId } from '../rules/groups/check-rule.js'
import { groupRecord, type KeptGroup } from '../rules/groups/group-record.js'
import { GROUPING, groupRules, keptRules, RULES, regroupedRecord, rulesRecord } from '../rules/groups/kept-rules.js'
import { inheritedLife, lifeAfterMark, NEW } from '../rules/groups/life.js'
import { missingGroups, movesOf, placedGroups } from '../rules/groups/regrouping.js'
import { markRecord, ruleRecord } from '../rules/operator-record.js'

/** The failure groups of every store, and the rules about them. Settlements keep their figures. */
export class Groups implements GroupStore {
  readonly #store: Transactions

  constructor(store: Transactions) {
    this.#store = store
  }

  async get(id: string): Promise<GroupRecord | undefined> {
    checkGroupId(id)
    return this.#store.read(function* (tx) {
      const group = yield* tx.groups.get(id)
      return group && groupRecord(group, yield* tx.clock.now())
    })
  }

  async list(filter: GroupFilter, { limit, after }: PageRequest): Promise<Page<GroupRecord>> {
    checkGroupFilter(filter)
    checkPage({ limit })
    const { kind, states } = filter
    const before = after === undefined ? NEWEST : taskPlace(after)
    return this.#store.read(function* (tx) {
      // The state of a group follows from its figures, so those in other states are left out later.
      const found = yield* tx.groups.list(kind, before, states === undefined ? limit + 1 : Number.MAX_SAFE_INTEGER)
      const now = yield* tx.clock.now()
      const groups = found.map(group => groupRecord(group, now))
      const meant = states === undefined ? groups : groups.filter(({ life }) => states.includes(life.state))
      return pageByTime(meant, limit, ({ lastSeenAt }) => lastSeenAt)
    })
  }

  async mark(id: string, mark: GroupMark, by: By): Promise<boolean> {
    checkGroupId(id)
    checkMark(mark)
    checkPerson(by)
    return this.#store.write(function* (tx) {
      const [group] = yield* tx.groups.lock([id])
      if (group === undefined) return false
      const now = yield* tx.clock.now()
      const workers = yield* tx.reads.workers()
      const releases = workers.flatMap(({ release }) => release ?? [])
      yield* tx.groups.saveLife(id, lifeAfterMark(mark, by, { now, seen: group.seen, releases }))
      yield* tx.audit.append(markRecord(id, mark, by, now), now)
      return true
    })
  }

  async rules(): Promise<GroupRules> {
    return this.#store.read(function* (tx) {
      return groupRules(yield* tx.records.list(GROUPING, '', 2))
    })
  }

  async addRule({ kind, pattern }: NewGroupRule, by: By): Promise<GroupRule> {
    checkRule({ kind, pattern }, by)
    return this.#store.write(function* (tx) {
      const { lastId, rules } = yield* lockRules(tx)
      const known = rules.find(rule => rule.kind === kind && rule.pattern === pattern)
      if (known !== undefined) return known
      checkRuleCount(rules.length)
      const { who, why } = by
      const now = yield* tx.clock.now()
      const facts = { ...(kind !== undefined && { kind }), pattern, at: now, who, ...(why !== undefined && { why }) }
      const rule = { id: lastId + 1, ...facts }
      yield* tx.records.save(GROUPING, [rulesRecord({ lastId: rule.id, rules: [...rules, rule] })])
      yield* tx.audit.append(ruleRecord('added', rule, by, now), now)
      return rule
    })
  }

  async removeRule(id: number, by: By): Promise<boolean> {
    checkRuleId(id)
    checkPerson(by)
    return this.#store.write(function* (tx) {
      const { lastId, rules } = yield* lockRules(tx)
      const rule = rules.find(one => one.id === id)
      if (rule === undefined) return false
      yield* tx.records.save(GROUPING, [rulesRecord({ lastId, rules: rules.filter(one => one !== rule) })])
      const now = yield* tx.clock.now()
      yield* tx.audit.append(ruleRecord('removed', rule, by, now), now)
      return true
    })
  }

  async regrouped(grouping: string): Promise<void> {
    checkName('grouping', grouping)
    await this.#store.write(tx => tx.records.save(GROUPING, [regroupedRecord(grouping)]))
  }

  async regroup(regrouping: Regrouping): Promise<number> {
    checkRegrouping(regrouping)
    const { from, moves } = regrouping
    const heir = regrouping.heir?.id === from ? undefined : regrouping.heir
    return this.#store.write(function* (tx) {
      const tasks = moves.map(({ task }) => task)
      // Tasks before groups, as settlements lock them.
      const wanted = movesOf(regrouping, yield* tx.groups.lockMembers(from, tasks))
      const targets = [...(heir === undefined ? [] : [heir]), ...wanted.map(({ to }) => to)]
      const groups = yield* tx.groups.lock([...new Set([from, ...targets.map(({ id }) => id)])])
      const left = groups.find(({ id }) => id === from)
      if (left === undefined) return 0
      const known = new Set(groups.map(({ id }) => id))
      if (heir !== undefined) known.add(yield* succeed(tx, left, heir, groups))
      for (const id of yield* make(tx, missingGroups(wanted, known))) known.add(id)
      const moved = wanted.filter(({ to }) => known.has(to.id))
      yield* tx.groups.moveMembers(from, moved, heir?.id)
      if (heir !== undefined) yield* tx.groups.forget(from)
      return moved.length
    })
  }
}

function* lockRules(tx: Tx): Steps<ReturnType<typeof keptRules>> {
  const [record] = yield* tx.records.lock(GROUPING, [RULES])
  return keptRules(record)
}

/** Gives the figures and the life of a group to its heir, which is made if there is none, however many its kind has. */
function* succeed(tx: Tx, left: KeptGroup, heir: FailureGroup, groups: readonly KeptGroup[]): Steps<string> {
  const own = groups.find(({ id }) => id === heir.id)
  if (own === undefined) yield* tx.groups.add([heir], left.firstSeenAt)
  yield* tx.groups.saveLife(heir.id, inheritedLife(left.life, own ?? { life: NEW, seen: 0 }))
  yield* tx.groups.inherit(left.id, heir.id)
  return heir.id
}

/** Makes groups, as far as their kinds have places. Returns the ids of those that it made. */
function* make(tx: Tx, groups: readonly FailureGroup[]): Steps<string[]> {
  const places = new Map<string, number>()
  for (const { kind } of groups) if (!places.has(kind)) places.set(kind, yield* tx.groups.placesLeft(kind))
  const made = placedGroups(groups, places)
  if (made.length > 0) yield* tx.groups.add(made, yield* tx.clock.now())
  return made.map(({ id }) => id)
}
