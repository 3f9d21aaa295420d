import assert from 'node:assert/strict'
import type { GroupLife, StoreContract } from '../../src/store/internal.js'
import {
  addOne,
  assertFields,
  claim,
  claimOne,
  groupOf,
  LEASE_MS,
  lose,
  type StoreBehaviours,
  settle,
  TIMED_OUT,
} from './harness.js'

const HOUR_MS = 3_600_000
const ann = { who: 'ann' }

async function lifeOf(store: StoreContract, id = 'a'): Promise<GroupLife> {
  const group = await store.groups.get(id)
  assert.ok(group !== undefined, `the group ${id} should be there`)
  return group.life
}

/** Fails the next attempt of a task that waits, with the group `a` or another one. */
async function fail(
  store: StoreContract,
  { release, id = 'a' }: { release?: string; id?: string } = {},
): Promise<void> {
  const failure = { verdict: TIMED_OUT, error: 'Error: failed', group: groupOf(id), ...(release && { release }) }
  await settle(store, await claimOne(store), { type: 'retry', delayMs: 0, isBackoff: true }, failure)
}

/** A store with a task that waits, and whose group is `a`. */
async function failed(store: StoreContract, release?: string): Promise<void> {
  await addOne(store)
  await fail(store, { ...(release !== undefined && { release }) })
}

/** The state of `a` after a mark as fixed in a release, and a later failure in another one. */
async function afterFix(
  store: StoreContract,
  advance: (ms: number) => Promise<void>,
  fixedIn: string | undefined,
  release: string | undefined,
): Promise<string> {
  await store.groups.mark('a', { state: 'fixed', ...(fixedIn !== undefined && { release: fixedIn }) }, ann)
  await advance(1)
  await fail(store, { ...(release !== undefined && { release }) })
  return (await lifeOf(store)).state
}

export const GROUP_LIFE: StoreBehaviours = {
  async 'a group is new, and what it is marked as'(store, advance) {
    await failed(store)
    assert.deepEqual(await lifeOf(store), { state: 'new' })
    const at = await store.now()
    assert.equal(await store.groups.mark('a', { state: 'acknowledged' }, { who: 'ann', why: 'on it \0 🚀' }), true)
    assert.deepEqual(await lifeOf(store), { state: 'acknowledged', at, who: 'ann', why: 'on it \0 🚀' })
    await advance(1)
    await fail(store, { release: '1.8.0' })
    assert.equal((await lifeOf(store)).state, 'acknowledged')
    await store.groups.mark('a', { state: 'new' }, ann)
    assert.deepEqual(await lifeOf(store), { state: 'new' })
  },

  async 'a mark is on record, and a mark of no group is none'(store) {
    await failed(store)
    assert.equal(await store.groups.mark('b', { state: 'acknowledged' }, ann), false)
    assert.deepEqual((await store.audit.tail(10)).items, [])
    await store.groups.mark('a', { state: 'fixed', release: '1.8.0' }, { who: 'ann', why: 'found it' })
    await store.groups.mark('a', { state: 'ignored', until: { at: 0, count: 5, perHour: 7 } }, ann)
    const [fixed, ignored] = (await store.audit.tail(10)).items.map(record => JSON.parse(record))
    assertFields(fixed, { event_type: 'group_marked', group: 'a', state: 'fixed', release: '1.8.0', why: 'found it' })
    const until = { at: '1970-01-01T00:00:00.000Z', count: 5, per_hour: 7 }
    assertFields(ignored, { event_type: 'group_marked', state: 'ignored', until, who: 'ann', why: null })
  },

  async 'marks that make no sense are refused'(store) {
    await failed(store)
    const mark = (mark: object, by: object = ann) => store.groups.mark('a', mark as { state: 'new' }, by as typeof ann)
    await assert.rejects(() => mark({ state: 'regressed' }), /states of a group are new, acknowledged, fixed, ignored/)
    await assert.rejects(() => mark({}), /got undefined/)
    await assert.rejects(() => mark({ state: 'fixed', release: 1 }), /'release'/)
    await assert.rejects(() => mark({ state: 'ignored', until: { count: -1 } }), /'until.count'/)
    await assert.rejects(() => mark({ state: 'new' }, {}), /'who'/)
    await assert.rejects(() => store.groups.list({ states: ['old' as 'new'] }, { limit: 1 }), /'old'/)
    assert.deepEqual(await lifeOf(store), { state: 'new' })
  },

  async 'a fixed group that fails in a release with the fix has regressed'(store, advance) {
    await failed(store, '1.7.0')
    assert.equal(await afterFix(store, advance, '1.8.0', '1.7.9'), 'fixed')
    assert.equal(await afterFix(store, advance, '1.8.0', '1.8.0-rc.1'), 'fixed')
    assert.equal(await afterFix(store, advance, '1.8.0', undefined), 'fixed')
    const at = await store.now()
    await store.groups.mark('a', { state: 'fixed', release: '1.8.0' }, { who: 'ann', why: 'found it' })
    assert.deepEqual(await lifeOf(store), {
      state: 'fixed',
      at,
      who: 'ann',
      why: 'found it',
      release: '1.8.0',
      before: [],
    })
    await advance(5)
    await fail(store, { release: '1.10.0' })
    const regressed = { state: 'regressed', who: 'ann', why: 'found it', release: '1.10.0', fixedIn: '1.8.0' }
    assert.deepEqual(await lifeOf(store), { ...regressed, at: at + 5 })
    await advance(5)
    await fail(store, { release: '1.11.0' })
    assert.deepEqual(await lifeOf(store), { ...regressed, at: at + 5 })
    await store.groups.mark('a', { state: 'acknowledged' }, ann)
    assert.equal((await lifeOf(store)).state, 'acknowledged')
  },

  async 'an attempt that began before the mark does not count against the fix'(store, advance) {
    await failed(store)
    const running = await claimOne(store)
    await advance(1)
    await store.groups.mark('a', { state: 'fixed', release: '1.8.0' }, ann)
    await advance(1)
    const failure = { verdict: TIMED_OUT, error: 'Error: failed', group: groupOf('a'), release: '1.8.0' }
    await settle(store, running, { type: 'retry', delayMs: 0, isBackoff: true }, failure)
    assert.equal((await lifeOf(store)).state, 'fixed')
    await fail(store, { release: '1.8.0' })
    assert.equal((await lifeOf(store)).state, 'regressed')
  },

  async 'a fix without a release holds from the mark on'(store, advance) {
    await failed(store)
    assert.equal(await afterFix(store, advance, undefined, undefined), 'regressed')
    assert.equal(await afterFix(store, advance, undefined, '0.1.0'), 'regressed')
  },

  async 'releases without an order have the fix if no live worker ran them at the mark'(store, advance) {
    await failed(store)
    for (const [worker, release] of Object.entries({ w1: 'blue', w2: 'blue', w3: 'green' }))
      await store.heartbeat({ worker, leaseMs: LEASE_MS, release })
    await store.groups.mark('a', { state: 'fixed', release: 'green' }, ann)
    assertFields(await lifeOf(store), { before: ['blue'] })
    assert.equal(await afterFix(store, advance, 'green', 'blue'), 'fixed')
    assert.equal(await afterFix(store, advance, 'green', 'green'), 'regressed')
    assert.equal(await afterFix(store, advance, 'green', 'red'), 'regressed')
    assert.equal(await afterFix(store, advance, '1.8.0', 'blue'), 'fixed')
  },

  async 'one batch may show that several groups have regressed'(store, advance) {
    await addOne(store)
    for (const id of ['a', 'b']) await fail(store, { id })
    await addOne(store)
    for (const id of ['b', 'a']) await store.groups.mark(id, { state: 'fixed', release: '2.0.0' }, ann)
    await advance(1)
    const { tasks } = await claim(store)
    const settlements = tasks.map(({ id, token, attempts, changedAt: at }, n) => ({
      id,
      token,
      outcome: { type: 'dead', reason: 'attempts_exhausted' } as const,
      attempt: {
        attempt: attempts + 1,
        startedAt: at,
        endedAt: at,
        worker: 'w1',
        verdict: TIMED_OUT,
        release: '2.0.0',
        group: groupOf(n === 0 ? 'a' : 'b'),
      },
    }))
    await store.settle(settlements)
    assert.deepEqual([(await lifeOf(store)).state, (await lifeOf(store, 'b')).state], ['regressed', 'regressed'])
  },

  async 'lost attempts regress with the release of their worker'(store, advance) {
    await addOne(store)
    await lose(store, advance)
    await store.groups.mark('lost:k', { state: 'fixed', release: '1.8.0' }, ann)
    await advance(1)
    const lost = await claimOne(store)
    await settle(store, lost, { type: 'retry', delayMs: 0, isBackoff: true })
    await store.heartbeat({ worker: 'killed', leaseMs: LEASE_MS, release: '1.8.1' })
    await lose(store, advance)
    assertFields(await lifeOf(store, 'lost:k'), { state: 'regressed', release: '1.8.1' })
  },

  async 'a group is ignored until a time'(store, advance) {
    await failed(store)
    const at = await store.now()
    await store.groups.mark('a', { state: 'ignored', until: { at: at + 10 } }, ann)
    assert.deepEqual(await lifeOf(store), { state: 'ignored', at, who: 'ann', until: { at: at + 10 }, seen: 1 })
    await advance(9)
    await fail(store)
    assert.equal((await lifeOf(store)).state, 'ignored')
    await advance(1)
    assert.deepEqual(await lifeOf(store), { state: 'new' })
  },

  async 'a group is ignored until it has failed a number of times more'(store) {
    await failed(store)
    await fail(store)
    await store.groups.mark('a', { state: 'ignored', until: { count: 2 } }, ann)
    await fail(store)
    assertFields(await lifeOf(store), { state: 'ignored', seen: 2 })
    await fail(store)
    assert.equal((await lifeOf(store)).state, 'new')
  },

  async 'a group is ignored until it fails too often in an hour that began after the mark'(store, advance) {
    await failed(store)
    await store.groups.mark('a', { state: 'ignored', until: { perHour: 1 } }, ann)
    await fail(store)
    await fail(store)
    assert.equal((await lifeOf(store)).state, 'ignored')
    await advance(HOUR_MS)
    await fail(store)
    assert.equal((await lifeOf(store)).state, 'ignored')
    await fail(store)
    assert.equal((await lifeOf(store)).state, 'new')
    await advance(23 * HOUR_MS)
    assert.equal((await lifeOf(store)).state, 'new')
    await advance(HOUR_MS)
    assert.equal((await lifeOf(store)).state, 'ignored')
  },

  async 'groups are listed by their state, page by page'(store, advance) {
    await addOne(store)
    const ids = ['a', 'b', 'c', 'd', 'e', 'f']
    for (const id of ids) {
      await advance(1)
      await fail(store, { id })
    }
    for (const id of ['b', 'c', 'f']) await store.groups.mark(id, { state: 'ignored' }, ann)
    await store.groups.mark('e', { state: 'ignored', until: { at: 0 } }, ann)
    await store.groups.mark('d', { state: 'acknowledged' }, ann)
    const listed = async (states: readonly GroupLife['state'][], after?: string) => {
      const page = { limit: 2, ...(after !== undefined && { after }) }
      const { items, next } = await store.groups.list({ kind: 'k', states }, page)
      return { ids: items.map(({ id }) => id).join(''), next }
    }
    const first = await listed(['ignored'])
    assert.deepEqual([first.ids, (await listed(['ignored'], first.next)).ids], ['fc', 'b'])
    const others = await listed(['new', 'acknowledged'])
    assert.deepEqual(
      [others.ids, await listed(['new', 'acknowledged'], others.next)],
      ['ed', { ids: 'a', next: undefined }],
    )
    assert.deepEqual(await listed([]), { ids: '', next: undefined })
  },
}
