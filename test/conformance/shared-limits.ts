import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { NewTask } from '../../src/store/index.js'
import type { ClaimedTask, Outcome, Settled, SharedLimits, StoreContract } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  claim,
  claimIds,
  claimOne,
  entry,
  LEASE_MS,
  laneOf,
  loseTwice,
  type StoreBehaviours,
  settle,
  settleUncounted,
} from './harness.js'

const SUCCEEDED = { type: 'succeeded' } as const
const ADVANCED = { type: 'advanced', to: 'llm', value: '1', keep: false } as const

export const SHARED_LIMITS: StoreBehaviours = {
  async 'no more tasks run at once than a shared limit allows, over all lanes of a kind'(store) {
    await store.limit({ kind: 'k' }, shared({ concurrency: 3 }))
    await add(store, ...tasks(4, { key: 'r1' }), ...tasks(4, { key: 'r2', category: 'x' }), ...tasks(4), { kind: 'l' })
    const first = await claim(store, { kinds: ['k', 'l'] })
    assert.deepEqual(first.tasks.map(({ kind }) => kind).sort(), ['k', 'k', 'k', 'l'])
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    const running = first.tasks.find(({ kind }) => kind === 'k')
    if (running) await settle(store, running, SUCCEEDED)
    assert.equal((await claimIds(store, { worker: 'w2' })).length, 1)
  },

  async 'a limit shared by a category leaves the others alone'(store) {
    await store.limit({ kind: 'k', category: 'x' }, shared({ concurrency: 1 }))
    await add(
      store,
      ...tasks(2, { category: 'x', key: 'r' }),
      ...tasks(2, { category: 'x' }),
      ...tasks(2, { key: 'r' }),
    )
    const { tasks: given } = await claim(store)
    assert.deepEqual(given.map(({ category }) => category).sort(), ['', '', 'x'])
  },

  async 'a place is free again when a task is handed back or lost'(store, advance) {
    await store.limit({ kind: 'k' }, shared({ concurrency: 1 }))
    await add(store, ...tasks(2))
    await settleUncounted(store, await claimOne(store), { type: 'released' })
    await claimOne(store)
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    await claimOne(store)
    await store.leave('w1')
    await claimOne(store)
  },

  async 'the last rule that matches a lane holds, and later lanes belong to it'(store) {
    await store.limit({ kind: 'k' }, shared({ concurrency: 5 }))
    await store.limit({ kind: 'k', category: 'x' }, shared({ concurrency: 1 }))
    await add(store, ...tasks(3, { category: 'x', key: 'r' }), ...tasks(8, { key: 'r' }))
    const { tasks: given } = await claim(store)
    assert.equal(given.filter(({ category }) => category === 'x').length, 1)
    assert.equal(given.filter(({ category }) => category === '').length, 5)
    assertFields(await laneOf(store, { category: 'x' }), {
      shared: { limits: shared({ concurrency: 1 }), pace: undefined },
    })
    await store.limit({ kind: 'k' }, shared({ concurrency: 7 }))
    assert.equal((await claimIds(store)).length, 1, 'six run, and the rule for all covers that of the category')
    assertFields(await laneOf(store, { category: 'x' }), {
      shared: { limits: shared({ concurrency: 7 }), pace: undefined },
    })
  },

  async 'the limits of a lane hold beside those that it shares'(store) {
    await store.limit({ kind: 'k' }, shared({ concurrency: 3 }))
    await store.limit({ kind: 'k', category: '', key: 'r1' }, { concurrency: 1 })
    await add(store, ...tasks(4, { key: 'r1' }), ...tasks(4, { key: 'r2' }))
    const { tasks: given } = await claim(store)
    assert.deepEqual(given.map(({ key }) => key).sort(), ['r1', 'r2', 'r2'])
    assertFields(await laneOf(store, { key: 'r1' }), {
      limits: { concurrency: 1 },
      shared: { limits: shared({ concurrency: 3 }), pace: undefined },
    })
    await store.limit({ kind: 'l' }, { concurrency: 1 })
    await add(store, { kind: 'l' })
    assert.equal((await laneOf(store, { kind: 'l' })).shared, undefined)
  },

  async 'a bucket lets its burst start at once, and the rest evenly'(store, advance) {
    await store.limit({ kind: 'k' }, shared({ rates: { calls: { perSecond: 10, burst: 3 } } }))
    await add(store, ...tasks(4, { key: 'r1' }), ...tasks(4, { key: 'r2' }))
    const { tasks: given, now, nextAt } = await claim(store)
    assert.deepEqual([given.length, nextAt], [3, now + 100])
    await advance(99)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.equal((await claimIds(store)).length, 1)
    await advance(10_000)
    assert.equal((await claimIds(store)).length, 3)
  },

  async 'a burst is a second’s worth, and at least one, unless it is given'(store, advance) {
    await store.limit({ kind: 'k' }, shared({ rates: { calls: { perSecond: 2.5 } } }))
    await store.limit({ kind: 'l' }, shared({ rates: { calls: { perSecond: 0.1 } } }))
    await add(store, ...tasks(5), ...tasks(3, { kind: 'l' }))
    assert.equal((await claimIds(store)).length, 2)
    const { tasks: given, now, nextAt } = await claim(store, { kinds: ['l'] })
    assert.equal(given.length, 1)
    assert.ok(nextAt !== undefined && nextAt > now && nextAt <= now + 10_000, `next at ${nextAt}`)
    await advance(10_000)
    assert.equal((await claimIds(store, { kinds: ['l'] })).length, 1)
  },

  async 'a task starts when each bucket has its cost, and takes it'(store, advance) {
    const rates = { calls: { perSecond: 100 }, tokens: { perSecond: 100, burst: 50 } }
    await store.limit({ kind: 'k' }, shared({ rates }))
    await add(store, ...[20, 20, 20].map(amount => ({ cost: { tokens: amount } })), { cost: { calls: 99 } }, {})
    const { tasks: given, now, nextAt } = await claim(store)
    assert.deepEqual([given.length, nextAt], [2, now + 100], 'ten tokens are left')
    await advance(100)
    assert.equal((await claimIds(store)).length, 1)
    assert.equal((await claim(store)).nextAt, now + 110, 'a bucket that is not named takes one')
    await advance(10)
    assert.equal((await claimIds(store)).length, 1)
    await advance(10)
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'a task that costs more than the bucket holds starts when it is full, and leaves a debt'(store, advance) {
    await store.limit({ kind: 'k' }, shared({ rates: { tokens: { perSecond: 10, burst: 10 } } }))
    await add(store, { id: 'a', cost: { tokens: 25 } }, { id: 'b' })
    const { tasks: given, now, nextAt } = await claim(store)
    assert.deepEqual([given.map(({ id }) => id), nextAt], [['a'], now + 1600])
    await advance(1599)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'cheap tasks do not starve one that costs much, in whatever lane'(store, advance) {
    await store.limit({ kind: 'k' }, shared({ rates: { tokens: { perSecond: 10, burst: 10 } } }))
    await add(store, ...tasks(10, { key: 'cheap' }))
    assert.equal((await claimIds(store)).length, 10)
    await add(store, { id: 'dear', key: 'dear', cost: { tokens: 8 } }, ...tasks(20, { key: 'cheap' }))
    let started = -1
    for (let step = 0; step < 30 && started < 0; step++) {
      await advance(100)
      if ((await claimIds(store)).includes('dear')) started = step
    }
    assert.ok(started >= 0, 'it never started')
  },

  async 'what an attempt really took is corrected when it ends'(store, advance) {
    await store.limit({ kind: 'k' }, shared({ rates: { tokens: { perSecond: 1, burst: 100 } } }))
    await add(store, { id: 'a', cost: { tokens: 90 } }, { id: 'b', cost: { tokens: 60 } }, { id: 'c' })
    const a = await claimOne(store)
    assert.equal((await settleUsed(store, a, SUCCEEDED, { tokens: 40 })).result, 'settled')
    assert.deepEqual(await claimIds(store, { limit: 1 }), ['b'], '50 were given back')
    assert.equal((await settleUsed(store, a, SUCCEEDED, { tokens: 0 })).result, 'stale')
    assert.deepEqual(await claimIds(store), [], 'a stale settlement gives nothing back')
    await advance(1000)
    assert.deepEqual(await claimIds(store), ['c'])
  },

  async 'an attempt that took more than its cost leaves a debt'(store, advance) {
    await store.limit(
      { kind: 'k' },
      shared({ rates: { tokens: { perSecond: 10, burst: 10 }, calls: { perSecond: 100 } } }),
    )
    await add(store, {}, { id: 'b' })
    await settleUsed(store, (await claim(store, { limit: 1 })).tasks[0], SUCCEEDED, { tokens: 21, other: 5 })
    assert.deepEqual(await claimIds(store), [])
    await advance(1199)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'no debt is larger than what its bucket gets in an hour, whatever an attempt took or costs'(store, advance) {
    const HOUR = 3_600_000
    await store.limit({ kind: 'k' }, shared({ rates: { tokens: { perSecond: 10, burst: 10 } } }))
    await store.limit({ kind: 'l' }, shared({ rates: { tokens: { perSecond: 1e-9, burst: 1e9 } } }))
    await add(store, { id: 'a' }, { id: 'b', cost: { tokens: 1e20 } }, { id: 'c' }, ...tasks(2, { kind: 'l' }))
    await settleUsed(store, (await claim(store, { limit: 1 })).tasks[0], SUCCEEDED, { tokens: 1e20 })
    const { tasks: given, now, nextAt } = await claim(store)
    assert.deepEqual(given, [])
    assert.ok(nextAt !== undefined && nextAt > now && nextAt <= now + HOUR + 1000, `next at ${nextAt}`)
    await settleUsed(store, (await claim(store, { kinds: ['l'], limit: 1 })).tasks[0], SUCCEEDED, { tokens: 1e20 })
    await add(store, { id: 'other', kind: 'm' })
    assert.deepEqual(await claimIds(store, { kinds: ['k', 'l', 'm'] }), ['other'], 'other lanes go on')
    await advance(HOUR + 1000)
    assert.deepEqual(await claimIds(store), ['b'])
    await advance(HOUR)
    assert.deepEqual(await claimIds(store), [])
    await advance(100)
    assert.deepEqual(await claimIds(store), ['c'])
  },

  async 'no bucket gets more back than it holds'(store) {
    await store.limit({ kind: 'k' }, shared({ rates: { tokens: { perSecond: 1, burst: 2 } } }))
    await add(store, ...tasks(5))
    const [first] = (await claim(store, { limit: 1 })).tasks
    await settleUsed(store, first, SUCCEEDED, { tokens: 0 })
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'watchers are called when something is given back'(store, advance) {
    await store.limit({ kind: 'k' }, shared({ rates: { tokens: { perSecond: 1, burst: 2 } } }))
    await add(store, ...tasks(3))
    const { tasks: given } = await claim(store)
    let calls = 0
    const stop = store.watch(() => calls++)
    await settleUsed(store, given[0], SUCCEEDED, { tokens: 0 })
    for (let i = 0; i < 100 && calls === 0; i++) await advance(1)
    stop()
    assert.ok(calls > 0)
  },

  async 'an item is kept at a stage whose shared limit can pay for it, and waits otherwise'(store, advance) {
    await store.limit(
      { kind: 'k', category: 'llm' },
      shared({ concurrency: 2, rates: { tokens: { perSecond: 10, burst: 10 } } }),
    )
    await add(store, ...['a', 'b', 'c'].map(id => ({ id, category: 'fetch', key: id })))
    const { tasks: items } = await claim(store)
    const results: string[] = []
    for (const item of items) results.push((await goOn(store, item, { tokens: 8 })).result)
    assert.deepEqual(results, ['kept', 'settled', 'settled'])
    assert.equal((await claim(store)).nextAt, (await store.now()) + 600)
    await advance(600)
    assert.equal((await claimIds(store)).length, 1)
    await advance(2000)
    assert.deepEqual(await claimIds(store), [], 'two run')
  },

  async 'a rate limit holds all lanes that share it, and those that are made later'(store, advance) {
    await store.limit({ kind: 'k', category: 'x' }, shared({}))
    await add(
      store,
      ...tasks(2, { category: 'x', key: 'r1' }),
      { category: 'x', key: 'r2' },
      { id: 'other', key: 'r1' },
    )
    const [task] = (await claim(store, { limit: 1, categories: ['x'] })).tasks
    if (task) await settle(store, task, { type: 'deferred', delayMs: 500 })
    await add(store, { category: 'x', key: 'r3' })
    const { tasks: given, now, nextAt } = await claim(store)
    assert.deepEqual([given.map(({ id }) => id), nextAt], [['other'], now + 500])
    for (const key of ['r1', 'r2', 'r3'])
      assert.equal((await laneOf(store, { category: 'x', key })).heldUntil, now + 500)
    assert.equal((await laneOf(store, { category: '', key: 'r1' })).heldUntil, undefined)
    await advance(499)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.equal((await claimIds(store)).length, 1, 'it starts with one')
    assert.equal((await laneOf(store, { category: 'x', key: 'r2' })).heldUntil, undefined)
  },

  async 'an item is not kept at a stage that is held'(store) {
    await store.limit({ kind: 'k', category: 'llm' }, shared({}))
    await add(store, { category: 'llm', key: 'other' }, { category: 'fetch', key: 'r' })
    const { tasks: given } = await claim(store)
    const [llm, fetch] = [
      given.find(({ category }) => category === 'llm'),
      given.find(({ category }) => category === 'fetch'),
    ]
    assert.ok(llm && fetch)
    await settle(store, llm, { type: 'deferred', delayMs: 500 })
    assert.equal((await goOn(store, fetch)).result, 'settled')
  },

  async 'after the hold tasks start at nine tenths of the rate that was accepted'(store, advance) {
    const pace = await learnPace(store, advance, 20)
    assert.equal(pace, 18)
    assert.equal((await claimIds(store)).length, 1)
    const { now, nextAt } = await claim(store)
    assert.ok(nextAt !== undefined && nextAt > now && nextAt <= now + 56, `next at ${nextAt}`)
    let started = 1
    for (let ms = 0; ms < 1000; ms += 10) {
      await advance(10)
      started += (await claimIds(store)).length
    }
    assert.ok(started >= 18 && started <= 21, `${started} started within a second`)
  },

  async 'attempts that began before the hold was over cut nothing'(store, advance) {
    await store.limit({ kind: 'k' }, shared({}))
    await add(store, ...tasks(40))
    const { tasks: given } = await claim(store, { limit: 30 })
    for (const task of given.slice(0, 20)) await settle(store, task, SUCCEEDED)
    for (const task of given.slice(20)) await settle(store, task, { type: 'deferred', delayMs: 500 })
    await advance(500)
    assert.equal((await laneOf(store, { kind: 'k' })).shared?.pace, 18)
  },

  async 'an end without an attempt is not accepted by the service, and counts for no pace'(store, advance) {
    await store.limit({ kind: 'k' }, shared({}))
    await add(store, ...tasks(50, { key: 'r' }))
    const { tasks: given } = await claim(store, { limit: 41 })
    for (const task of given.slice(0, 20)) await settle(store, task, SUCCEEDED)
    for (const task of given.slice(20, 30)) await settleUncounted(store, task, { type: 'dead', reason: 'ttl_expired' })
    for (const task of given.slice(30, 40)) await settleUncounted(store, task, ADVANCED)
    for (const task of given.slice(40)) await settle(store, task, { type: 'deferred', delayMs: 500 })
    await advance(500)
    assert.equal((await laneOf(store, { kind: 'k', category: '', key: 'r' })).shared?.pace, 18)
  },

  async 'a second refusal cuts the pace to nine tenths of the rate that was accepted since the first'(store, advance) {
    await learnPace(store, advance, 20)
    // Ten are accepted within two seconds, one in each 200 ms, and the last second has five of them.
    for (let step = 0; step < 10; step++) {
      const { tasks: given } = await claim(store, { limit: 1 })
      for (const task of given) await settle(store, task, SUCCEEDED)
      await advance(200)
    }
    const [task] = (await claim(store, { limit: 1 })).tasks
    assert.ok(task)
    await settle(store, task, { type: 'deferred', delayMs: 100 })
    await advance(100)
    const pace = (await laneOf(store, { kind: 'k' })).shared?.pace ?? 0
    assert.equal(pace, 9, 'half of the rate before is the largest cut')
  },

  async 'refusals now and then do not lower the pace further and further'(store, advance) {
    await learnPace(store, advance, 20)
    await add(store, ...tasks(700))
    const paces: number[] = []
    for (let refusals = 0; refusals < 5; refusals++) {
      for (let accepted = 0; accepted <= 100; ) {
        await advance(500)
        const { tasks: given } = await claim(store, { limit: 50 })
        await store.settle(
          given.map(task => ({ id: task.id, token: task.token, outcome: SUCCEEDED, attempt: entry(task) })),
        )
        accepted += given.length
      }
      await advance(500)
      const [unlucky] = (await claim(store, { limit: 1 })).tasks
      assert.ok(unlucky !== undefined)
      await settle(store, unlucky, { type: 'deferred', delayMs: 500 })
      await advance(500)
      paces.push((await laneOf(store, { kind: 'k' })).shared?.pace ?? 0)
    }
    const [, second = 0] = paces
    assert.ok(
      paces.every((pace, n) => n < 2 || pace >= 0.99 * second),
      paces.join(', '),
    )
  },

  async 'the pace grows with every second without a refusal, and ends after a minute'(store, advance) {
    await learnPace(store, advance, 20)
    const paceNow = async () => (await laneOf(store, { kind: 'k' })).shared?.pace
    let before = 0
    for (let second = 0; second <= 4; second++) {
      const pace = (await paceNow()) ?? 0
      assert.ok(pace >= before, `${pace} after ${before}`)
      before = pace
      await advance(1000)
    }
    assert.ok(before > 30, `${before} per second after four seconds`)
    await advance(60_000)
    assert.equal(await paceNow(), undefined)
    assert.equal((await claimIds(store)).length, 80)
  },

  async 'limits that are given again change nothing, and others take effect at once'(store) {
    const limits = shared({ rates: { calls: { perSecond: 1, burst: 2 }, tokens: { perSecond: 1, burst: 5 } } })
    await store.limit({ kind: 'k' }, limits)
    await add(store, ...tasks(9))
    assert.equal((await claimIds(store)).length, 2)
    await store.limit({ kind: 'k' }, limits)
    assert.deepEqual(await claimIds(store), [])
    await store.limit(
      { kind: 'k' },
      shared({ rates: { calls: { perSecond: 1, burst: 4 }, tokens: { perSecond: 1, burst: 5 } } }),
    )
    assert.equal((await claimIds(store)).length, 3, 'the calls begin full, and three tokens are left')
    await store.limit({ kind: 'k' }, shared({}))
    assert.equal((await claimIds(store)).length, 4)
  },

  async 'a hold and its pace end when the limits are changed, and not when they are given again'(store) {
    await store.limit({ kind: 'k' }, shared({}))
    await add(store, ...tasks(3))
    const [task] = (await claim(store, { limit: 1 })).tasks
    if (task) await settle(store, task, { type: 'deferred', delayMs: 500 })
    await store.limit({ kind: 'k' }, shared({}))
    assert.deepEqual(await claimIds(store), [])
    await store.limit({ kind: 'k' }, shared({ concurrency: 9 }))
    assertFields(await laneOf(store, { kind: 'k' }), {
      heldUntil: undefined,
      shared: { limits: shared({ concurrency: 9 }), pace: undefined },
    })
    assert.equal((await claimIds(store)).length, 2)
  },

  async 'refusals with nothing accepted between them hold, and leave the pace as it was'(store, advance) {
    const pace = await learnPace(store, advance, 20)
    for (let probe = 0; probe < 40; probe++) {
      const [task] = (await claim(store, { limit: 1 })).tasks
      assert.ok(task)
      await settle(store, task, { type: 'deferred', delayMs: 1000 })
      assert.deepEqual(await claimIds(store), [])
      await advance(1000)
    }
    assert.equal((await laneOf(store, { kind: 'k' })).shared?.pace, pace)
  },

  async 'what must run alone takes from the limit like all others'(store, advance) {
    await addOne(store, { id: 'alone' })
    await loseTwice(store, advance)
    await store.limit({ kind: 'k' }, shared({ rates: { calls: { perSecond: 1, burst: 1 } } }))
    await add(store, ...tasks(2, { priority: 9 }))
    assert.equal((await claimIds(store)).length, 1)
    assertFields(await claim(store, { isIdle: true }), { tasks: [], isAloneWaiting: false })
    await advance(1000)
    assert.deepEqual(await claimIds(store, { isIdle: true }), ['alone'])
    await advance(999)
    assert.deepEqual(await claimIds(store), [])
  },

  async 'closed lanes do not keep others from being claimed'(store) {
    await store.limit({ kind: 'k' }, shared({ rates: { calls: { perSecond: 1, burst: 1 } } }))
    await add(store, ...Array.from({ length: 60 }, (_, index) => ({ key: `r${index}` })), {
      id: 'other',
      kind: 'l',
      key: 'z',
    })
    const first = await claimIds(store, { kinds: ['k', 'l'], limit: 2 })
    const second = await claimIds(store, { kinds: ['k', 'l'], limit: 2 })
    assert.ok([...first, ...second].includes('other'))
    assert.equal(first.length + second.length, 2)
  },

  async 'shared limits that cannot be are an OptionError that names them'(store) {
    const bad: readonly [option: string, limits: object, lanes?: object][] = [
      ['key', {}, { key: 'r' }],
      ['concurrency', { concurrency: 1.5 }],
      ['concurrency', { concurrency: -1 }],
      ['perSecond', { rates: { calls: { perSecond: 0 } } }],
      ['perSecond', { rates: { calls: { perSecond: Infinity } } }],
      ['perSecond', { rates: { calls: { perSecond: 1e300 } } }],
      ['perSecond', { rates: { calls: { perSecond: 1e-300 } } }],
      ['burst', { rates: { calls: { perSecond: 1, burst: 1e300 } } }],
      ['perSecond', { rates: { calls: {} } }],
      ['burst', { rates: { calls: { perSecond: 1, burst: 0 } } }],
      ['rates', { rates: { 'a\0': { perSecond: 1 } } }],
      ['concurency', { concurency: 1 }],
      ['perSecond', { perSecond: 1 }],
      ['bursts', { rates: { calls: { perSecond: 1, bursts: 5 } } }],
    ]
    for (const [option, limits, lanes] of bad) {
      const call = store.limit({ kind: 'k', ...lanes }, { isShared: true, ...limits } as SharedLimits)
      await assert.rejects(call, (error: unknown) => error instanceof OptionError && error.option === option, option)
    }
    await add(store, {})
    assert.equal((await laneOf(store, { kind: 'k' })).shared, undefined)
  },

  async 'the largest and smallest rates work'(store, advance) {
    const rates = { most: { perSecond: 1e12, burst: 1e12 }, least: { perSecond: 1e-9, burst: 1 } }
    await store.limit({ kind: 'k' }, shared({ rates }))
    await add(store, { cost: { most: 1e300 } }, {})
    const { tasks, nextAt } = await claim(store)
    assert.equal(tasks.length, 1)
    assert.ok(nextAt !== undefined && nextAt > (await store.now()) + 1e11)
    await settleUsed(store, tasks[0], SUCCEEDED, { most: 1e300, least: 1e300 })
    await advance(1000)
    assert.deepEqual((await claim(store)).tasks, [])
  },

  async 'limits that an operator sets hold until the code declares others than before'(store) {
    const declare = (perSecond: number, category = 'x') =>
      store.limit({ kind: 'k', category }, shared({ rates: { calls: { perSecond, burst: 9 } }, isDeclared: true }))
    const limits = async () => (await laneOf(store, { kind: 'k', category: 'x' })).shared?.limits
    await add(store, { category: 'x' })
    await declare(5)
    assert.deepEqual(await limits(), shared({ rates: { calls: { perSecond: 5, burst: 9 } } }))
    await store.limit({ kind: 'k', category: 'x' }, shared({ rates: { calls: { perSecond: 1 } } }), { who: 'ann' })
    await declare(5)
    await declare(3, 'y')
    assert.deepEqual(await limits(), shared({ rates: { calls: { perSecond: 1 } } }))
    await store.limit({ kind: 'k' }, shared({ concurrency: 4 }), { who: 'ann' })
    await declare(5)
    assert.deepEqual(await limits(), shared({ concurrency: 4 }))
    await declare(6)
    assert.deepEqual(await limits(), shared({ rates: { calls: { perSecond: 6, burst: 9 } } }))
  },

  async 'new shared limits with `by` are on record'(store) {
    const rates = { calls: { perSecond: 2, burst: 3 } }
    await store.limit({ kind: 'k', category: 'x' }, shared({ concurrency: 1, rates }), { who: 'ann' })
    const { items } = await store.audit.page({ limit: 10 })
    const record: unknown = JSON.parse(items[0] ?? '')
    assertFields(record as { readonly limits: object }, {
      limits: { is_shared: true, concurrency: 1, rates: { calls: { per_second: 2, burst: 3 } } },
    })
  },
}

function shared(limits: Omit<SharedLimits, 'isShared'>): SharedLimits {
  return { isShared: true, ...limits }
}

function tasks(count: number, task: Partial<NewTask> = {}): Partial<NewTask>[] {
  return Array.from({ length: count }, () => task)
}

/** Lets this many tasks succeed in one moment, and the next be refused. Returns the pace after the hold. */
async function learnPace(
  store: StoreContract,
  advance: (ms: number) => Promise<void>,
  accepted: number,
): Promise<number> {
  await store.limit({ kind: 'k' }, shared({}))
  await add(store, ...tasks(accepted + 80))
  const { tasks: given } = await claim(store, { limit: accepted + 1 })
  for (const task of given.slice(0, accepted)) await settle(store, task, SUCCEEDED)
  const last = given[accepted]
  assert.ok(last !== undefined && given.length === accepted + 1)
  await settle(store, last, { type: 'deferred', delayMs: 500 })
  await advance(500)
  return (await laneOf(store, { kind: 'k' })).shared?.pace ?? 0
}

async function settleUsed(
  store: StoreContract,
  task: ClaimedTask | undefined,
  outcome: Outcome,
  used: Readonly<Record<string, number>>,
): Promise<Settled> {
  assert.ok(task !== undefined, 'there should be a task')
  const [settled] = await store.settle([{ id: task.id, token: task.token, outcome, attempt: entry(task), used }])
  assert.ok(settled !== undefined, 'every settlement is answered')
  return settled
}

/** Advances an item to the stage `llm`, at a cost, and asks to keep it. */
async function goOn(
  store: StoreContract,
  item: ClaimedTask,
  cost?: Readonly<Record<string, number>>,
): Promise<Settled> {
  const outcome = { type: 'advanced', to: 'llm', value: '1', keep: true, ...(cost && { cost }) } as const
  const [settled] = await store.settle([{ id: item.id, token: item.token, outcome, attempt: entry(item) }])
  assert.ok(settled !== undefined, 'every settlement is answered')
  return settled
}
