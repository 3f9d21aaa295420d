import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { LaneLimits } from '../../src/store/index.js'
import {
  add,
  addOne,
  assertFields,
  assertSame,
  claim,
  claimIds,
  claimOne,
  get,
  kill,
  laneOf,
  loseTwice,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
} from './harness.js'

const idsOf = (tasks: readonly { readonly id: string }[]) => tasks.map(({ id }) => id)

const LANE = { kind: 'k', category: '', key: 't' }

export const LIMITS: StoreBehaviours = {
  async 'a paused kind gives no work until it is resumed, its later lanes included'(store) {
    await add(store, { id: 'a' }, { id: 'b', category: 'c', key: 't' }, { id: 'other', kind: 'l' })
    await store.pause({ kind: 'k' }, { isPaused: true })
    await add(store, { id: 'c', key: 'later' })
    assert.deepEqual(await claimIds(store, { kinds: ['k', 'l'] }), ['other'])
    assert.equal((await laneOf(store, { key: 'later' })).isPaused, true)
    await store.pause({ kind: 'k' }, { isPaused: false })
    assert.deepEqual((await claimIds(store)).sort(), ['a', 'b', 'c'])
    assert.equal((await laneOf(store, { key: 'later' })).isPaused, false)
  },

  async 'a category is paused alone, and so is a key'(store) {
    await add(
      store,
      { id: 'a', category: 'x' },
      { id: 'b', category: 'x', key: 't' },
      { id: 'c', key: 't' },
      { id: 'd' },
    )
    await store.pause({ kind: 'k', category: 'x' }, { isPaused: true })
    await store.pause({ kind: 'k', key: 't' }, { isPaused: true })
    await store.pause({ kind: 'l' }, { isPaused: true })
    assert.deepEqual(await claimIds(store), ['d'])
    await store.pause({ kind: 'k', category: 'x' }, { isPaused: false })
    assert.deepEqual((await claimIds(store)).sort(), ['a', 'b'])
    await store.pause({ kind: 'k', key: 't' }, { isPaused: false })
    assert.deepEqual(await claimIds(store), ['c'])
  },

  async 'no category and no key are told from any'(store) {
    await add(store, { id: 'a' }, { id: 'b', category: 'x' }, { id: 'c', category: 'x', key: 't' })
    await store.pause({ kind: 'k', category: '', key: '' }, { isPaused: true })
    assert.deepEqual((await claimIds(store)).sort(), ['b', 'c'])
  },

  async 'the last word on a lane holds'(store) {
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 'u' })
    await store.pause({ kind: 'k' }, { isPaused: true })
    await store.pause({ kind: 'k', key: 't' }, { isPaused: false })
    assert.deepEqual(await claimIds(store), ['a'])
    await add(store, { id: 'c', category: 'x', key: 't' })
    assert.deepEqual(await claimIds(store), ['c'], 'a lane that came later')
    await store.pause({ kind: 'k' }, { isPaused: false })
    assert.deepEqual(await claimIds(store), ['b'])
    await store.pause({ kind: 'k', key: 't' }, { isPaused: true })
    await store.pause({ kind: 'k' }, { isPaused: false })
    await add(store, { id: 'd', key: 't' })
    assert.deepEqual(await claimIds(store), ['d'])
  },

  async 'what runs when its lane is paused runs on, and its retry waits'(store) {
    const task = await start(store)
    await store.pause({ kind: 'k' }, { isPaused: true })
    assert.equal(await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }), 'settled')
    assert.deepEqual(await claimIds(store), [])
    await store.pause({ kind: 'k' }, { isPaused: false })
    assert.deepEqual(await claimIds(store), [task.id])
  },

  async 'pausing and resuming twice, or what is not there, does nothing more'(store) {
    const id = await addOne(store)
    await store.pause({ kind: 'k' }, { isPaused: false })
    await store.pause({ kind: 'unknown' }, { isPaused: true })
    await store.pause({ kind: 'k' }, { isPaused: true })
    await store.pause({ kind: 'k' }, { isPaused: true })
    await store.pause({ kind: 'k' }, { isPaused: false })
    assert.deepEqual(await claimIds(store), [id])
  },

  async 'no more of a lane run at once than its limit allows'(store) {
    await store.limit(LANE, { concurrency: 2 })
    await add(store, ...Array.from({ length: 5 }, () => ({ key: 't' })), { id: 'other', key: 'u' })
    const { tasks } = await claim(store)
    assert.equal(tasks.length, 3)
    assert.equal((await laneOf(store, LANE)).running, 2)
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    const limited = tasks.find(({ key }) => key === 't')
    if (limited) await settle(store, limited, { type: 'succeeded' })
    assert.equal((await claimOne(store, { worker: 'w2' })).key, 't')
    assertFields(await laneOf(store, LANE), { running: 2, limits: { concurrency: 2 } })
  },

  async 'a lane without a key can be limited, and the others go on in their order'(store) {
    await store.limit({ kind: 'k', category: 'x', key: '' }, { concurrency: 1 })
    await add(store, { id: 'a', category: 'x' }, { id: 'b', category: 'x' }, { id: 'c' }, { id: 'd', category: 'y' })
    assert.deepEqual(await claimIds(store), ['a', 'c', 'd'])
  },

  async 'no more of a lane start in a second than its limit allows'(store, advance) {
    await store.limit(LANE, { perSecond: 2 })
    await add(store, ...Array.from({ length: 5 }, () => ({ key: 't' })), { id: 'other' })
    const { tasks, now, nextAt } = await claim(store)
    assert.equal(tasks.length, 3)
    assert.ok(
      nextAt !== undefined && nextAt > now && nextAt <= now + 1000,
      `the next may start at now + ${nextAt} - ${now}`,
    )
    for (const task of tasks) await settle(store, task, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    assert.equal((await claimIds(store)).length, 2)
    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'at the next time that a claim told, the next of a limited lane starts'(store, advance) {
    await store.limit(LANE, { perSecond: 3 })
    await add(store, ...Array.from({ length: 4 }, () => ({ key: 't' })))
    const { tasks, now, nextAt } = await claim(store)
    assert.equal(tasks.length, 3)
    await advance(Math.ceil((nextAt ?? now) - now))
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'a limit takes the place of the one before, and can be taken away'(store) {
    await store.limit(LANE, { concurrency: 1, perSecond: 1 })
    await add(store, ...Array.from({ length: 5 }, () => ({ key: 't' })))
    assert.equal((await claimIds(store)).length, 1)
    await store.limit(LANE, { concurrency: 2 })
    assertFields(await laneOf(store, LANE), { limits: { concurrency: 2 } })
    assert.equal((await claimIds(store)).length, 1)
    await store.limit(LANE, {})
    assert.equal((await claimIds(store)).length, 3)
    assertFields(await laneOf(store, LANE), { limits: {} })
  },

  async 'a rate begins with a second’s worth, also where another one was used up'(store) {
    await add(store, ...Array.from({ length: 9 }, () => ({ key: 't' })))
    await store.limit(LANE, { perSecond: 2 })
    assert.equal((await claimIds(store)).length, 2)
    await store.limit(LANE, { perSecond: 3 })
    assert.equal((await claimIds(store)).length, 3)
  },

  async 'a lane that may run none at once runs none'(store) {
    await store.limit(LANE, { concurrency: 0 })
    await add(store, { key: 't' })
    assertFields(await claim(store), { tasks: [], nextAt: undefined })
  },

  async 'a kind is limited lane by lane, its later lanes included'(store) {
    await add(store, { key: 't' }, { key: 't' }, { key: 'u' }, { key: 'u' }, { id: 'other', kind: 'l' })
    await store.limit({ kind: 'k' }, { concurrency: 1 })
    assert.equal((await claimIds(store, { kinds: ['k', 'l'] })).length, 3)
    await add(store, { key: 'later' }, { key: 'later' }, { category: 'c' }, { category: 'c' })
    assert.equal((await claimIds(store)).length, 2)
    assertFields(await laneOf(store, { key: 'later' }), { running: 1, limits: { concurrency: 1 } })
    await store.limit({ kind: 'k' }, {})
    assert.equal((await claimIds(store)).length, 4)
  },

  async 'a lane that comes later has the rate of its kind, and begins with a second’s worth'(store) {
    await store.limit({ kind: 'k', category: 'c' }, { perSecond: 2 })
    await add(store, ...Array.from({ length: 5 }, () => ({ category: 'c', key: 't' })), { id: 'other', key: 't' })
    assert.equal((await claimIds(store)).length, 3)
    assertFields(await laneOf(store, { category: 'c' }), { limits: { perSecond: 2 } })
    assertFields(await laneOf(store, { category: '' }), { limits: {} })
  },

  async 'the last word on a lane’s limits holds'(store) {
    const limitsOf = async (lane: object) => (await laneOf(store, lane)).limits
    await store.limit({ kind: 'k' }, { concurrency: 1 })
    await store.limit(LANE, { concurrency: 2 })
    await store.limit({ kind: 'k', key: 'u' }, { concurrency: 3 })
    await add(store, { key: 't' }, { key: 'u' }, { key: 'v' })
    assert.deepEqual(await limitsOf({ key: 't' }), { concurrency: 2 })
    assert.deepEqual(await limitsOf({ key: 'u' }), { concurrency: 3 })
    assert.deepEqual(await limitsOf({ key: 'v' }), { concurrency: 1 })
    await store.limit({ kind: 'k' }, { concurrency: 4 })
    await add(store, { category: 'x', key: 'u' })
    for (const lane of await store.lanes()) assert.deepEqual(lane.limits, { concurrency: 4 }, JSON.stringify(lane))
  },

  async 'a limit that is said again changes nothing'(store) {
    await store.limit({ kind: 'k' }, { perSecond: 2 })
    await add(store, ...Array.from({ length: 5 }, () => ({ key: 't' })))
    assert.equal((await claimIds(store)).length, 2)
    await store.limit({ kind: 'k' }, { perSecond: 2 })
    await store.limit(LANE, { perSecond: 2 })
    assert.deepEqual(await claimIds(store), [])
    await store.limit({ kind: 'k', category: '' }, { perSecond: 3 })
    await store.limit({ kind: 'k' }, { perSecond: 2 })
    await add(store, { key: 'u' })
    assertFields(await laneOf(store, { key: 'u' }), { limits: { perSecond: 2 } })
  },

  async 'an ordered lane runs one task after the other, and a retry keeps its place'(store, advance) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' }, { id: 'other', key: 'u' })
    const claimed = (await claim(store)).tasks
    assertSame(idsOf(claimed), ['a', 'other'])
    assertFields(await laneOf(store, LANE), { running: 1, limits: { concurrency: 1, isOrdered: true } })
    const [first] = claimed.filter(({ id }) => id === 'a')
    if (first) await settle(store, first, { type: 'retry', delayMs: 1000, isBackoff: true })
    const { tasks, now, nextAt } = await claim(store)
    assert.deepEqual(tasks, [], 'b waits for a')
    assert.equal(nextAt, now + 1000)
    assertFields(await get(store, 'a'), { status: 'waiting', attempts: 1, nextAttemptAt: now + 1000 })
    await advance(1000)
    const again = await claimOne(store)
    assertFields(again, { id: 'a', attempts: 1 })
    await settle(store, again, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'in an ordered lane what is deferred, or asks for later, keeps its place, and a dead letter lets the next go on'(
    store,
    advance,
  ) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' })
    for (const type of ['deferred', 'later'] as const) {
      await settle(store, await claimOne(store), { type, delayMs: 500 })
      await advance(499)
      assert.deepEqual(await claimIds(store), [], type)
      await advance(1)
    }
    const task = await claimOne(store)
    assert.equal(task.id, 'a')
    await settleUncounted(store, task, { type: 'released' })
    const again = await claimOne(store)
    assert.equal(again.id, 'a', 'what is handed back is first again')
    await kill(store, again)
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'in an ordered lane a head that is cancelled lets the next go on, unless a rate limit holds the lane'(
    store,
    advance,
  ) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' }, { id: 'c', key: 't' })
    await settle(store, await claimOne(store), { type: 'retry', delayMs: 3_600_000, isBackoff: true })
    assert.deepEqual(await claimIds(store), [])
    await store.cancel(['a'], { who: 'ann' })
    assertFields(await laneOf(store, LANE), { heldUntil: undefined, heldBy: undefined })
    const next = await claimOne(store)
    assert.equal(next.id, 'b')
    await settle(store, next, { type: 'deferred', delayMs: 1000 })
    await store.cancel(['b'])
    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    assert.deepEqual(await claimIds(store), ['c'])
  },

  async 'in an ordered lane nothing overtakes what was lost'(store, advance) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' })
    await loseTwice(store, advance)
    assert.deepEqual(await claimIds(store), [], 'a must run alone, and b waits for it')
    const lost = await claimOne(store, { isIdle: true })
    assertFields(lost, { id: 'a', isUndecided: true })
    await settleUncounted(store, lost, { type: 'retry', delayMs: 1000, isBackoff: true })
    assert.deepEqual(await claimIds(store, { isIdle: true }), [])
    await advance(1000)
    const again = await claimOne(store, { isIdle: true })
    assert.equal(again.id, 'a')
    await settle(store, again, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'what is enqueued into an ordered lane comes after all that are there, whatever its id'(store) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    for (const id of ['c', 'b', 'a']) await add(store, { id, key: 't' })
    const first = await claimOne(store)
    await add(store, { id: '0', key: 't' })
    await settleUncounted(store, first, { type: 'released' })
    await add(store, { id: '9', key: 't' }, { id: '8', key: 't' })
    await Promise.all(['7', '6', '5'].map(id => add(store, { id, key: 't' })))
    const order: string[] = []
    for (let n = 0; n < 9; n++) {
      const task = await claimOne(store)
      order.push(task.id)
      await settle(store, task, { type: 'succeeded' })
    }
    assert.deepEqual(order, ['c', 'b', 'a', '0', '9', '8', '7', '6', '5'])
    const { now } = await claim(store)
    await add(store, { id: 'said', key: 't', submittedAt: now - 1000 })
    assert.equal((await get(store, 'said')).submittedAt, now - 1000)
  },

  async 'what is enqueued for later takes its place in an ordered lane once its time has come'(store, advance) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    const { now } = await claim(store)
    await add(store, { id: 'later', key: 't', runAt: now + 1000 }, { id: 'b', key: 't', submittedAt: now + 1 })
    assert.deepEqual(await claimIds(store), ['b'])
    await add(store, { id: 'c', key: 't', submittedAt: now + 2 })
    await advance(1000)
    await store.leave('w1')
    const task = await claimOne(store)
    assert.equal(task.id, 'later')
  },

  async 'limits that cannot be are an OptionError, and change nothing'(store) {
    await store.limit(LANE, { concurrency: 1 })
    for (const limits of [{ concurrency: -1 }, { concurrency: 1e12 }, { perSecond: 0 }, { perSecond: -1 }])
      await assert.rejects(store.limit(LANE, limits), OptionError, JSON.stringify(limits))
    await assert.rejects(store.limit(LANE, { concurrency: 1.5 }), OptionError)
    await assert.rejects(store.limit(LANE, { perSecond: Number.NaN }), OptionError)
    await assert.rejects(store.limit(LANE, { perSecond: Infinity }), OptionError)
    await assert.rejects(store.limit(LANE, { perSecond: 1e300 }), OptionError)
    await assert.rejects(store.limit(LANE, { perSecond: 1e-300 }), OptionError)
    assertFields(await laneOf(store, LANE), { limits: { concurrency: 1 } })
  },

  async 'a limit that is mistyped is an OptionError that says what was meant, and changes nothing'(store) {
    await store.limit(LANE, { concurrency: 1 })
    const mistyped = { concurency: 5 } as LaneLimits
    await assert.rejects(store.limit(LANE, mistyped), (error: unknown) => {
      assert.ok(error instanceof OptionError)
      assert.equal(error.option, 'concurency')
      assert.match(error.message, /Did you mean 'concurrency'\?/)
      return true
    })
    assertFields(await laneOf(store, LANE), { limits: { concurrency: 1 } })
  },
}
