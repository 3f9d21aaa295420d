import assert from 'node:assert/strict'
import type { GroupRecord } from '../../src/store/index.js'
import type { CountField, FailureGroup, StoreContract } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  claim,
  claimOne,
  entry,
  get,
  groupOf,
  kill,
  LEASE_MS,
  lose,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
  TIMED_OUT,
} from './harness.js'

const HOUR_MS = 3_600_000

/** A failure of the group `a`, or another one. */
const failure = (id = 'a') => ({ verdict: TIMED_OUT, error: `Error: ${id} failed`, group: groupOf(id) })

const retry = { type: 'retry', delayMs: 0, isBackoff: true } as const
const dead = { type: 'dead', reason: 'attempts_exhausted' } as const

async function group(store: StoreContract, id = 'a'): Promise<GroupRecord> {
  const found = await store.groups.get(id)
  assert.ok(found !== undefined, `the group ${id} should be there`)
  return found
}

/** The figures of a group. */
async function figures(store: StoreContract, id = 'a'): Promise<[seen: number, retrying: number, dead: number]> {
  const { seen, retrying, dead } = await group(store, id)
  return [seen, retrying, dead]
}

export const GROUPS: StoreBehaviours = {
  async 'a group is made by its first failure, with its facts'(store) {
    assert.equal(await store.groups.get('a'), undefined)
    const task = await start(store)
    const facts = { ...groupOf('a'), errorName: 'TypeError', pattern: 'a\0 *', frames: ['pay src/pay.ts'] }
    await settle(store, task, retry, { ...failure(), group: facts })
    const now = await store.now()
    const { trend, ...record } = await group(store)
    const counts = { seen: 1, retrying: 1, dead: 0 }
    assert.deepEqual(record, { ...facts, ...counts, firstSeenAt: now, lastSeenAt: now, life: { state: 'new' } })
    assert.deepEqual(trend, [...Array.from({ length: 23 }, () => 0), 1])
    assert.equal((await get(store, task.id)).group, 'a')
    assert.deepEqual(
      (await store.ledger(task.id)).map(({ group }) => group),
      ['a'],
    )
  },

  async 'a failure without a verdict, or without a group, is in none'(store) {
    const { verdict, error, group: facts } = failure()
    await settle(store, await start(store), retry, { group: facts })
    await settle(store, await claimOne(store), dead, { verdict, error })
    assert.deepEqual((await store.groups.list({}, { limit: 10 })).items, [])
  },

  async 'a task is in the group of its last failure, until it succeeds'(store) {
    const task = await start(store)
    await settle(store, task, retry, failure('a'))
    const again = await claimOne(store)
    assert.equal(again.group, 'a')
    await settle(store, again, retry, failure('b'))
    assert.deepEqual(await figures(store, 'a'), [1, 0, 0])
    assert.deepEqual(await figures(store, 'b'), [1, 1, 0])
    await settle(store, await claimOne(store), { type: 'succeeded', result: '1' })
    assert.deepEqual(await figures(store, 'b'), [1, 0, 0])
    assert.equal((await get(store, task.id)).group, undefined)
    assert.deepEqual((await store.list({ group: 'b' }, { limit: 10 })).items, [])
    assert.deepEqual(await store.countBy({}, ['group']), [{ count: 1 }])
  },

  async 'a success with a reason, a skip and an advance leave the group too'(store) {
    for (const outcome of [
      { type: 'succeeded', reason: 'too large' },
      { type: 'skipped', reason: 'r' },
      { type: 'advanced', to: 'next', value: '1', keep: false },
    ] as const) {
      await settle(store, await start(store, { id: outcome.type }), retry, failure())
      await settle(store, await claimOne(store, { categories: [''] }), outcome)
      assert.equal((await get(store, outcome.type)).group, undefined)
    }
    assert.deepEqual(await figures(store), [3, 0, 0])
  },

  async 'an item that is kept by its worker has left the group'(store) {
    await settle(store, await start(store, { id: 'item' }), retry, failure())
    const outcome = { type: 'advanced', to: 'next', value: '1', keep: true } as const
    assert.equal(await settle(store, await claimOne(store), outcome), 'kept')
    assert.deepEqual(await figures(store), [1, 0, 0])
    assertFields(await get(store, 'item'), { group: undefined, category: 'next', status: 'running' })
  },

  async 'death, redrive, discard and cancel move a task within its group'(store) {
    const [one = '', two = '', three = ''] = await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    for (const task of (await claim(store)).tasks) await settle(store, task, dead, failure())
    assert.deepEqual(await figures(store), [3, 0, 3])
    await store.redrive([one, two], { who: 'ann' })
    assert.deepEqual(await figures(store), [3, 2, 1])
    assertFields(await get(store, one), { status: 'waiting', group: 'a', errorCode: undefined })
    await store.discard([three], { who: 'ann', why: 'old' })
    assert.deepEqual(await figures(store), [3, 2, 0])
    await store.cancel([one])
    assert.deepEqual(await figures(store), [3, 1, 0])
    const running = await claimOne(store)
    await store.cancel([two])
    assert.deepEqual(await figures(store), [3, 1, 0])
    await settle(store, running, retry, failure())
    assert.deepEqual(await figures(store), [4, 0, 0])
    assertFields(await get(store, two), { status: 'cancelled', group: 'a' })
  },

  async 'lost attempts of a kind are one group, whoever was lost, and the decision on one keeps it there'(
    store,
    advance,
  ) {
    await add(store, { id: 'a' }, { id: 'b', kind: 'l' })
    await lose(store, advance, { kinds: ['k', 'l'] })
    assertFields(await group(store, 'lost:k'), {
      kind: 'k',
      code: 'lost',
      errorName: '',
      frames: [],
      seen: 1,
      retrying: 1,
    })
    assert.deepEqual(await figures(store, 'lost:l'), [1, 1, 0])
    const task = await claimOne(store)
    await store.settle([{ id: task.id, token: task.token, outcome: dead, attempt: entry(task, failure()) }])
    assert.deepEqual(await figures(store, 'lost:k'), [1, 0, 1])
    assert.equal(await store.groups.get('a'), undefined)
    const [row] = await store.ledger('a')
    assertFields(row, { outcome: 'lost', group: 'lost:k', error: 'Error: a failed' })
  },

  async 'an attempt that is handed back keeps the group'(store, advance) {
    await settle(store, await start(store), retry, failure())
    await settleUncounted(store, await claimOne(store), { type: 'released' })
    await settle(store, await claimOne(store), { type: 'later', delayMs: 0 })
    await claimOne(store)
    await store.leave('w1')
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    assert.deepEqual(await figures(store), [1, 1, 0])
  },

  async 'a first attempt that was made elsewhere is counted'(store) {
    const attempt = { attempt: 1, startedAt: 0, endedAt: 1, worker: 'w', ...failure() }
    const id = await addOne(store, { tried: { outcome: dead, attempt } })
    assert.deepEqual(await figures(store), [1, 0, 1])
    assert.equal((await get(store, id)).group, 'a')
    await addOne(store, { id, tried: { outcome: dead, attempt } })
    assert.deepEqual(await figures(store), [1, 0, 1])
  },

  async 'dead letters are counted by group and kind, with those that are in none'(store) {
    await add(store, { id: 'a1' }, { id: 'a2' }, { id: 'none' }, { id: 'b1', kind: 'l' })
    for (const task of (await claim(store, { rooms: [{ kinds: ['k', 'l'] }] })).tasks) {
      const group = { ...groupOf(task.kind === 'l' ? 'b' : 'a', task.kind) }
      await settle(store, task, dead, task.id === 'none' ? {} : { ...failure('a'), group })
    }
    const by = async (filter: object, ...fields: CountField[]) => {
      const counts = await store.countBy({ status: 'dead', ...filter }, fields)
      return counts.map(count => JSON.stringify(count, Object.keys(count).sort())).sort()
    }
    assert.deepEqual(await by({}, 'group'), ['{"count":1,"group":"b"}', '{"count":1}', '{"count":2,"group":"a"}'])
    assert.deepEqual(await by({ kind: 'k' }, 'kind', 'group', 'status'), [
      '{"count":1,"kind":"k","status":"dead"}',
      '{"count":2,"group":"a","kind":"k","status":"dead"}',
    ])
    assert.deepEqual(await by({ group: 'a' }, 'kind'), ['{"count":2,"kind":"k"}'])
    assert.deepEqual(await by({ group: 'a', kind: 'l' }, 'group'), [])
    assert.deepEqual(await by({ key: '' }, 'group'), await by({}, 'group'))
    assert.equal((await store.count({ status: 'dead', group: 'a' })).dead, 2)
    assert.equal((await store.count({ status: 'dead', group: 'nothing' })).dead, 0)
  },

  async 'lists and counts by group find what failed, and page'(store, advance) {
    await add(store, ...['a', 'b', 'c', 'd', 'e'].map(id => ({ id })), { id: 'other' })
    for (const task of (await claim(store)).tasks) {
      await advance(1)
      await settle(store, task, task.id === 'b' ? retry : dead, failure(task.id === 'other' ? 'z' : 'a'))
    }
    await store.discard(['c'], { who: 'ann', why: 'old' })
    const ids = async (filter: object, page = { limit: 10 }) =>
      (await store.list({ group: 'a', ...filter }, page)).items.map(({ id }) => id)
    assert.deepEqual(await ids({ status: 'dead' }), ['e', 'd', 'a'])
    assert.deepEqual(await ids({ status: 'waiting' }), ['b'])
    assert.deepEqual(await ids({ status: 'cancelled' }), ['c'])
    assert.deepEqual(await ids({ status: 'succeeded' }), [])
    assert.deepEqual(await ids({ errorCode: 'timeout', kind: 'l' }), [])
    assert.deepEqual((await ids({})).toSorted(), ['a', 'b', 'c', 'd', 'e'])
    const first = await store.list({ group: 'a', status: 'dead' }, { limit: 2 })
    assert.ok(first.next !== undefined)
    assert.deepEqual(await ids({ status: 'dead' }, { limit: 2, ...{ after: first.next } }), ['a'])
    assertFields(await store.count({ group: 'a' }), { waiting: 1, dead: 3, cancelled: 1, running: 0 })
    assertFields(await store.count({ group: 'a', errorCode: 'none' }), { dead: 0 })
    await claim(store)
    assert.deepEqual(await ids({ status: 'running' }), ['b'])
    assertFields(await store.count({ group: 'a' }), { running: 1, waiting: 0 })
    assert.deepEqual(await store.countBy({ group: 'a', status: 'dead' }, ['kind']), [{ kind: 'k', count: 3 }])
    const byGroup = await store.countBy({ status: 'dead' }, ['group'])
    assert.deepEqual(
      byGroup.toSorted((a, b) => b.count - a.count),
      [
        { group: 'a', count: 3 },
        { group: 'z', count: 1 },
      ],
    )
  },

  async 'groups are listed last seen first, by kind, page by page'(store, advance) {
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'd', kind: 'l' })
    for (const task of (await claim(store, { kinds: ['k', 'l'] })).tasks) {
      await advance(1)
      await settle(store, task, dead, { ...failure(), group: groupOf(task.id, task.kind) })
    }
    const ids = async (filter = {}, page = { limit: 10 }) =>
      (await store.groups.list(filter, page)).items.map(({ id }) => id)
    assert.deepEqual(await ids(), ['d', 'c', 'b', 'a'])
    assert.deepEqual(await ids({ kind: 'k' }), ['c', 'b', 'a'])
    const { items, next } = await store.groups.list({}, { limit: 3 })
    assert.deepEqual(
      items.map(({ id }) => id),
      ['d', 'c', 'b'],
    )
    assert.deepEqual(await ids({}, { limit: 3, ...{ after: next } }), ['a'])
    await assert.rejects(() => store.groups.list({}, { limit: 3, after: 'nonsense' }), /'after'/)
  },

  async 'groups that were seen together are listed by their ids, in the order of code points'(store) {
    const ids = ['a', '\uffee', '🚀']
    await add(store, ...ids.map(id => ({ id })))
    for (const task of (await claim(store)).tasks)
      await settle(store, task, dead, { ...failure(), group: groupOf(task.id) })
    const listed: string[] = []
    let after: string | undefined
    do {
      const { items, next } = await store.groups.list({}, { limit: 1, ...(after !== undefined && { after }) })
      listed.push(...items.map(({ id }) => id))
      after = next
    } while (after !== undefined)
    assert.deepEqual(listed, ids.toReversed())
  },

  async 'the trend counts failures by hour, and hours of long ago still count as seen'(store, advance) {
    const fail = async () => settle(store, await claimOne(store), retry, failure())
    await addOne(store)
    await fail()
    await advance(HOUR_MS)
    await fail()
    await fail()
    assert.deepEqual((await group(store)).trend.slice(-2), [1, 2])
    const lastSeenAt = await store.now()
    await advance(10 * 24 * HOUR_MS)
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })
    await store.prune({}, 100)
    assertFields(await group(store), { seen: 3, retrying: 1, lastSeenAt, trend: Array.from({ length: 24 }, () => 0) })
  },

  async 'a group without tasks is forgotten when it has not been seen for as long as dead letters are kept'(
    store,
    advance,
  ) {
    await add(store, { id: 'a' }, { id: 'b' })
    for (const task of (await claim(store)).tasks) await settle(store, task, retry, failure(task.id))
    for (const task of (await claim(store)).tasks)
      if (task.id === 'a') await settle(store, task, { type: 'skipped', reason: 'r' })
    await advance(999)
    await store.prune({ deadMs: 1000 }, 100)
    assert.deepEqual(await figures(store, 'a'), [1, 0, 0])
    await advance(1)
    await store.prune({ deadMs: 1000 }, 100)
    assert.equal(await store.groups.get('a'), undefined)
    assert.deepEqual(await figures(store, 'b'), [1, 1, 0])
    await advance(LEASE_MS)
    await store.prune({ endedMs: 0 }, 100)
    assert.deepEqual(await figures(store, 'b'), [1, 1, 0])
  },

  async 'dead letters that are forgotten leave their group'(store, advance) {
    for (const id of ['a', 'b']) await kill(store, await start(store, { id }))
    await advance(1000)
    await kill(store, await start(store, { id: 'c' }))
    assert.equal(await store.prune({ deadMs: 1000 }, 100), 2)
    assert.deepEqual(await figures(store, 'E_BAD:k'), [3, 0, 1])
  },

  async 'a kind has at most 1000 groups, one more for the rest of each of 100 codes, and one for the rest'(store) {
    const tasks = Array.from({ length: 1003 }, (_, n) => {
      const facts = groupOf(`g${n}`, n === 1002 ? 'l' : 'k')
      const attempt = { attempt: 1, startedAt: 0, endedAt: 1, worker: 'w', ...failure(), group: facts }
      return { id: `t${n}`, kind: facts.kind, payload: '1', tried: { outcome: dead, attempt } }
    })
    await store.enqueue(tasks.slice(0, 1000))
    await store.enqueue(tasks.slice(1000))
    assert.equal((await get(store, 't999')).group, 'g999')
    assertFields(await get(store, 't1001'), { group: 'other:k:timeout' })
    assertFields(await group(store, 'other:k:timeout'), {
      seen: 2,
      dead: 2,
      code: 'timeout',
      pattern: 'other failures',
    })
    assert.deepEqual(await figures(store, 'g1002'), [1, 0, 1])
    assert.equal((await store.groups.list({ kind: 'k' }, { limit: 2000 })).items.length, 1001)
    const again = await start(store, { id: 'again' })
    await settle(store, again, dead, { ...failure(), group: groupOf('g7') })
    assert.deepEqual(await figures(store, 'g7'), [2, 0, 2])
    const move = (to: FailureGroup) => ({ from: 'g1', moves: [{ task: 't1', to }] })
    assert.equal(await store.groups.regroup(move(groupOf('split'))), 0, 'a full kind has no room for another group')
    const heir = groupOf('heir')
    assert.equal(await store.groups.regroup({ ...move(heir), heir }), 1, 'but an heir takes the place of its group')
    assert.equal((await store.groups.list({ kind: 'k' }, { limit: 2000 })).items.length, 1001)

    const coded = Array.from({ length: 150 }, (_, n) => {
      const verdict = { class: 'final', code: `E${n}` } as const
      const attempt = { attempt: 1, startedAt: 0, endedAt: 1, worker: 'w', verdict, error: 'Error: x' }
      const tried = { outcome: dead, attempt: { ...attempt, group: { ...groupOf(`c${n}`), code: `E${n}` } } }
      return { id: `c${n}`, kind: 'k', payload: '1', tried }
    })
    await store.enqueue(coded.slice(0, 90))
    await store.enqueue(coded.slice(90))
    const { items } = await store.groups.list({ kind: 'k' }, { limit: 2000 })
    assert.equal(items.filter(({ id }) => id.startsWith('other:k:E')).length, 99)
    assert.equal(items.length, 1101)
    assertFields(await group(store, 'other:k:'), { seen: 51, dead: 51, code: '', pattern: 'other failures' })
    assert.equal((await get(store, 'c50')).group, 'other:k:E50')
  },
}
