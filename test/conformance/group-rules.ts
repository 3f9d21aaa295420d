import assert from 'node:assert/strict'
import type { FailureGroup, StoreContract } from '../../src/store/internal.js'
import {
  add,
  assertFields,
  claim,
  claimOne,
  get,
  groupOf,
  type StoreBehaviours,
  settle,
  start,
  TIMED_OUT,
} from './harness.js'

const ann = { who: 'ann' }
const HOUR_MS = 3_600_000
const retry = { type: 'retry', delayMs: HOUR_MS, isBackoff: true } as const
const dead = { type: 'dead', reason: 'attempts_exhausted' } as const

/** Tasks with these ids, which die with the group `a`, and one that waits with it, for an hour: `waits`. */
async function failed(store: StoreContract, ...ids: readonly string[]): Promise<void> {
  await add(store, ...ids.map(id => ({ id })), { id: 'waits' })
  for (const task of (await claim(store)).tasks) {
    const failure = { verdict: TIMED_OUT, error: 'Error: a', group: groupOf('a') }
    await settle(store, task, task.id === 'waits' ? retry : dead, failure)
  }
}

const to = (group: FailureGroup, ...tasks: readonly string[]) => tasks.map(task => ({ task, to: group }))

/** The figures of a group. */
async function figures(
  store: StoreContract,
  id: string,
): Promise<[seen: number, retrying: number, dead: number] | undefined> {
  const found = await store.groups.get(id)
  return found && [found.seen, found.retrying, found.dead]
}

export const GROUP_RULES: StoreBehaviours = {
  async 'a rule is kept as it was added, on record, until it is removed'(store) {
    assert.deepEqual(await store.groups.rules(), { rules: [], regrouped: undefined })
    const at = await store.now()
    const why = 'one cause \0 🚀'
    const rule = await store.groups.addRule({ kind: 'k', pattern: 'tenant * is over' }, { who: 'ann', why })
    assert.deepEqual(rule, { id: rule.id, kind: 'k', pattern: 'tenant * is over', at, who: 'ann', why })
    const other = await store.groups.addRule({ pattern: 'host {*} is down' }, ann)
    assert.deepEqual((await store.groups.rules()).rules, [rule, other])
    assert.equal(await store.groups.removeRule(rule.id, { who: 'bob' }), true)
    assert.equal(await store.groups.removeRule(rule.id, ann), false)
    assert.deepEqual((await store.groups.rules()).rules, [other])
    const audit = (await store.audit.tail(10)).items.map(record => JSON.parse(record))
    assert.deepEqual(
      audit.map(({ event_type, rule, kind, who }) => [event_type, rule, kind, who]),
      [
        ['group_rule_added', rule.id, 'k', 'ann'],
        ['group_rule_added', other.id, undefined, 'ann'],
        ['group_rule_removed', rule.id, 'k', 'bob'],
      ],
    )
  },

  async 'a rule that is there is not added again, and its number is never given twice'(store) {
    const first = await store.groups.addRule({ pattern: 'a *' }, ann)
    assert.deepEqual(await store.groups.addRule({ pattern: 'a *' }, { who: 'bob' }), first)
    const ofKind = await store.groups.addRule({ kind: 'k', pattern: 'a *' }, ann)
    assert.equal((await store.groups.rules()).rules.length, 2)
    await store.groups.removeRule(ofKind.id, ann)
    assert.notEqual((await store.groups.addRule({ pattern: 'b *' }, ann)).id, ofKind.id)
  },

  async 'rules that are added at once are all kept, each with a number of its own'(store) {
    const added = await Promise.all(
      Array.from({ length: 8 }, (_, n) => store.groups.addRule({ pattern: `${n} *` }, ann)),
    )
    const { rules } = await store.groups.rules()
    assert.deepEqual(new Set(rules), new Set(added))
    assert.equal(new Set(rules.map(({ id }) => id)).size, 8)
  },

  async 'rules that make no sense, and more than 100, are refused'(store) {
    for (const pattern of ['', ' ', 'x'.repeat(1001), 'a\0', 7 as never])
      await assert.rejects(() => store.groups.addRule({ pattern }, ann), /'pattern'/)
    await assert.rejects(() => store.groups.addRule({ pattern: 'a' }, {} as never), /'who'/)
    await assert.rejects(() => store.groups.removeRule('a' as never, ann), /'id'/)
    for (let n = 0; n < 100; n++) await store.groups.addRule({ pattern: `a${n} *` }, ann)
    await assert.rejects(() => store.groups.addRule({ pattern: 'b *' }, ann), /100 rules/)
    assert.equal((await store.groups.rules()).rules.length, 100)
  },

  async 'the grouping that all groups were gone through for is kept'(store) {
    await store.groups.regrouped('1.ab')
    await store.groups.regrouped('2')
    assert.equal((await store.groups.rules()).regrouped, '2')
  },

  async 'a worker reports its grouping'(store) {
    await store.heartbeat({ worker: 'w1', leaseMs: 1000, grouping: '1.ab' })
    await store.heartbeat({ worker: 'w2', leaseMs: 1000 })
    const reported = (await store.workers()).map(({ name, grouping }) => [name, grouping])
    assert.deepEqual(reported, [
      ['w1', '1.ab'],
      ['w2', undefined],
    ])
  },

  async 'the heir gets the tasks, the figures and the life of a group, which is forgotten'(store, advance) {
    await failed(store, 'b', 'c')
    await store.groups.mark('a', { state: 'acknowledged' }, { who: 'ann', why: 'on it' })
    const before = await store.groups.get('a')
    await advance(HOUR_MS)
    const heir = { ...groupOf('h'), pattern: 'h *' }
    const moves = to(heir, 'b', 'c', 'waits', 'unknown')
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves }), 3)
    assert.equal(await store.groups.get('a'), undefined)
    const now = await store.groups.get('h')
    assert.ok(before !== undefined && now !== undefined)
    assert.deepEqual(now, { ...before, ...heir, trend: [...before.trend.slice(1), 0] })
    for (const id of ['b', 'c', 'waits']) {
      assert.equal((await get(store, id)).group, 'h')
      assert.deepEqual(
        (await store.ledger(id)).map(({ group }) => group),
        ['h'],
      )
    }
    assert.deepEqual((await store.list({ group: 'a' }, { limit: 10 })).items, [])
    assert.equal((await store.list({ group: 'h', status: 'dead' }, { limit: 10 })).items.length, 2)
    await settle(store, await claimOne(store), { type: 'succeeded' })
    assert.deepEqual(await figures(store, 'h'), [3, 0, 2])
  },

  async 'a group is left with the tasks that did not move yet, and those of others stay'(store) {
    await failed(store, 'b', 'c')
    const heir = groupOf('h')
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: to(heir, 'b') }), 1)
    assert.deepEqual(await figures(store, 'a'), [0, 1, 1])
    assert.deepEqual(await figures(store, 'h'), [3, 0, 1])
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: to(heir, 'b') }), 0)
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: to(heir, 'c', 'waits') }), 2)
    assert.equal(await store.groups.get('a'), undefined)
    assert.deepEqual(await figures(store, 'h'), [3, 1, 2])
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: to(heir, 'c') }), 0)
  },

  async 'tasks that are split off count one failure each, and the group keeps its own'(store) {
    await failed(store, 'b', 'c')
    await store.groups.mark('a', { state: 'acknowledged' }, ann)
    const at = await store.now()
    assert.equal(await store.groups.regroup({ from: 'a', moves: to(groupOf('s'), 'b') }), 1)
    assert.deepEqual(await figures(store, 'a'), [3, 1, 1])
    assert.deepEqual(await figures(store, 's'), [1, 0, 1])
    assertFields(await store.groups.get('a'), { life: { state: 'acknowledged', at, who: 'ann' } })
    const { endedAt } = (await store.ledger('b'))[0] ?? {}
    assertFields(await store.groups.get('s'), { firstSeenAt: endedAt, lastSeenAt: endedAt, life: { state: 'new' } })
  },

  async 'a group stays while a discarded or cancelled task names it, and goes to its heir with all failures'(
    store,
    advance,
  ) {
    await failed(store, 'b')
    await store.discard(['b'], { ...ann, why: 'a duplicate' })
    await store.cancel(['waits'], ann)
    await advance(1000)
    await store.prune({ deadMs: 1000 }, 100)
    assert.deepEqual(await figures(store, 'a'), [2, 0, 0])
    assert.equal(
      await store.groups.regroup({ from: 'a', heir: groupOf('h'), moves: to(groupOf('h'), 'b', 'waits') }),
      2,
    )
    assert.deepEqual(await figures(store, 'h'), [2, 0, 0])
  },

  async 'a group that goes to its heir page by page stays while a discarded letter names it, and is counted once'(
    store,
  ) {
    await failed(store, 'b')
    await store.discard(['b'], { ...ann, why: 'a duplicate' })
    const heir = groupOf('h')
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: to(heir, 'waits') }), 1)
    assert.deepEqual(await figures(store, 'a'), [0, 0, 0])
    assert.deepEqual(await figures(store, 'h'), [2, 1, 0])
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: to(heir, 'b') }), 1)
    assert.equal(await store.groups.get('a'), undefined)
    assert.deepEqual(await figures(store, 'h'), [2, 1, 0])
  },

  async 'two groups are merged, and the heir keeps its own life'(store) {
    await failed(store, 'b')
    const b = { verdict: TIMED_OUT, error: 'Error: b', group: groupOf('h') }
    await settle(store, await start(store, { id: 'own' }), dead, b)
    await store.groups.mark('h', { state: 'ignored', until: { count: 9 } }, ann)
    await store.groups.mark('a', { state: 'acknowledged' }, ann)
    await store.groups.regroup({ from: 'a', heir: groupOf('h'), moves: to(groupOf('h'), 'b', 'waits') })
    assert.deepEqual(await figures(store, 'h'), [3, 1, 2])
    assert.equal((await store.groups.get('h'))?.life.state, 'ignored')
  },

  async 'an ignored group that goes to another one counts further failures from its mark on'(store) {
    await failed(store, 'b')
    const own = { verdict: TIMED_OUT, error: 'Error: h', group: groupOf('h') }
    for (const id of ['o1', 'o2']) await settle(store, await start(store, { id }), dead, own)
    await store.groups.mark('a', { state: 'ignored', until: { count: 1 } }, ann)
    await store.groups.regroup({ from: 'a', heir: groupOf('h'), moves: to(groupOf('h'), 'b', 'waits') })
    assertFields(await store.groups.get('h'), { seen: 4 })
    assert.equal((await store.groups.get('h'))?.life.state, 'ignored')
    await settle(store, await start(store, { id: 'o3' }), dead, own)
    assert.equal((await store.groups.get('h'))?.life.state, 'new')
  },

  async 'a running task, a redriven one and a cancelled one are moved too'(store, advance) {
    await failed(store, 'b', 'c')
    await advance(HOUR_MS)
    const running = await claimOne(store)
    await store.redrive(['b'], ann)
    await store.discard(['c'], { who: 'ann', why: 'old' })
    const heir = groupOf('h')
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: to(heir, 'b', 'c', 'waits') }), 3)
    assert.deepEqual(await figures(store, 'h'), [3, 2, 0])
    assertFields(await get(store, 'c'), { status: 'cancelled', group: 'h' })
    await settle(store, running, { type: 'skipped', reason: 'r' })
    assert.deepEqual(await figures(store, 'h'), [3, 1, 0])
  },
}
