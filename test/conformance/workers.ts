import assert from 'node:assert/strict'
import { addOne, claimOne, entry, LEASE_MS, lose, type StoreBehaviours, settle, start, TIMED_OUT } from './harness.js'

const NOTES = { t1: { since: 1, notes: { progress: { fraction: 0.5, text: 'page 3' } } } }
const LISTS = { kinds: ['k', 'mail'], categories: ['eu'], overruns: ['t1'] }
const REPORT = { release: '1.8.0', host: 'web-1', grouping: '1.ab', notes: NOTES, ...LISTS }

/** Workers report themselves, and each attempt keeps the release of the worker that made it. */
export const WORKERS: StoreBehaviours = {
  'live workers are listed by name, with their last report': async (store, advance) => {
    const now = await store.now()
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS, ...REPORT })
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })
    await advance(1000)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS, ...REPORT, release: '1.9.0', categories: undefined })
    const none = {
      grouping: undefined,
      overruns: undefined,
      notes: undefined,
      release: undefined,
      kinds: undefined,
      categories: undefined,
      host: undefined,
    }
    assert.deepEqual(await store.workers(), [
      { name: 'w1', since: now, beatAt: now, until: now + LEASE_MS, ...none },
      {
        name: 'w2',
        since: now,
        beatAt: now + 1000,
        until: now + 1000 + LEASE_MS,
        ...REPORT,
        release: '1.9.0',
        categories: undefined,
      },
    ])
  },

  'a worker is paused for as long as it reports so': async store => {
    const paused = async () => (await store.workers()).map(({ isPaused }) => isPaused)
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS, ...REPORT, isPaused: true })
    assert.deepEqual(await paused(), [true])
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS, ...REPORT, isPaused: false })
    assert.deepEqual(await paused(), [undefined])
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS, ...REPORT, isPaused: true })
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS, ...REPORT })
    assert.deepEqual(await paused(), [undefined])
  },

  'a worker that claims keeps its report': async store => {
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS, ...REPORT })
    await start(store)
    const [worker] = await store.workers()
    assert.deepEqual(
      { ...worker, since: 0, beatAt: 0, until: 0 },
      { name: 'w1', since: 0, beatAt: 0, until: 0, ...REPORT },
    )
  },

  'a worker that leaves, or whose lease expires, is listed no more': async (store, advance) => {
    await store.heartbeat({ worker: 'left', leaseMs: LEASE_MS, ...REPORT })
    await store.heartbeat({ worker: 'gone', leaseMs: 10, ...REPORT })
    await store.heartbeat({ worker: 'here', leaseMs: LEASE_MS, ...REPORT })
    await store.leave('left')
    await advance(10)
    assert.deepEqual(
      (await store.workers()).map(({ name }) => name),
      ['here'],
    )
  },

  'each attempt keeps the release that made it, successes too': async store => {
    const task = await start(store)
    const failed = { verdict: TIMED_OUT, error: 'Error: late', release: '1.8.0' }
    await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }, failed)
    await settle(store, await claimOne(store), { type: 'succeeded' }, { release: '1.9.0' })
    assert.deepEqual(
      (await store.ledger(task.id)).map(({ outcome, release }) => [outcome, release]),
      [
        ['retry', '1.8.0'],
        ['succeeded', '1.9.0'],
      ],
    )
  },

  'successes that are settled together keep their own releases': async store => {
    const tasks = [await start(store), await start(store), await start(store)]
    const releases = ['1.8.0', undefined, '1.9.0']
    const outcome = { type: 'succeeded' } as const
    await store.settle(
      tasks.map((task, n) => ({
        id: task.id,
        token: task.token,
        outcome,
        attempt: entry(task, { release: releases[n] }),
      })),
    )
    const rows = await store.ledgers(tasks.map(({ id }) => id))
    assert.deepEqual(
      rows.map(([row]) => row?.release),
      releases,
    )
  },

  'an item that advances keeps the release of each stage': async store => {
    const task = await start(store, { category: 'fetch' })
    const advanced = { type: 'advanced', to: 'parse', value: '1', keep: false } as const
    await settle(store, task, advanced, { release: '1.8.0' })
    await settle(store, await claimOne(store), { type: 'succeeded' }, { release: '1.9.0' })
    assert.deepEqual(
      (await store.ledger(task.id)).map(({ outcome, release }) => [outcome, release]),
      [
        ['advanced', '1.8.0'],
        ['succeeded', '1.9.0'],
      ],
    )
  },

  'a first attempt made elsewhere keeps its release': async store => {
    const now = await store.now()
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w1', release: '1.8.0' }
    const dead = { outcome: { type: 'dead', reason: 'final_error' }, attempt } as const
    const advanced = { outcome: { type: 'advanced', to: 'next', value: '1', keep: false }, attempt } as const
    const ids = [await addOne(store, { tried: dead }), await addOne(store, { tried: advanced })]
    assert.deepEqual(
      (await store.ledgers(ids)).map(([row]) => row?.release),
      ['1.8.0', '1.8.0'],
    )
  },

  'a lost attempt keeps the release that its worker had reported': async (store, advance) => {
    const id = await addOne(store)
    await store.heartbeat({ worker: 'killed', leaseMs: LEASE_MS, ...REPORT })
    await lose(store, advance)
    const [row] = await store.ledger(id)
    assert.deepEqual([row?.outcome, row?.release], ['lost', '1.8.0'])
  },

  'a report that cannot be kept is refused': async store => {
    const beat = { worker: 'w1', leaseMs: LEASE_MS }
    const tooLong = 'x'.repeat(600)
    for (const bad of [{ release: tooLong }, { kinds: [tooLong] }, { categories: [tooLong] }, { host: tooLong }])
      await assert.rejects(store.heartbeat({ ...beat, ...bad }), { name: 'OptionError' })
  },
}
