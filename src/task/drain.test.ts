import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { schedule } from '../schedule/index.js'
import { MemoryStore, type StoreContract } from '../store/internal.js'
import { openPostgres } from '../store/postgres/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'
import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { defineTask, later, skip, type TaskDefinition, TaskQueue, Worker, type WorkerOptions } from './index.js'

/** A store and a queue on a clock that the test moves, and workers that drain the store. */
function bench(tasks: readonly TaskDefinition[], options: Partial<WorkerOptions> = {}) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const make = () => new Worker(store, { tasks, clock, ...options })
  return { clock, store, queue, make, drain: (...args: Parameters<Worker['drain']>) => make().drain(...args) }
}

const quick = defineTask('quick', { handler: (_: null) => 'done' })
const NOTHING = { ran: 0, succeeded: 0, failed: 0, dead: 0 }

describe('a drain', () => {
  it('ends at once if nothing is due, and leaves no worker behind', async () => {
    const { store, queue, drain, clock } = bench([quick])
    await queue.enqueue(quick, null, { delay: '1h' })
    expect(await drain()).toEqual({ ...NOTHING, ended: 'empty' })
    expect(await store.workers()).toEqual([])
    expect(clock.timers).toBe(0)
  })

  it('runs more than fit at once, and says what came of them', async () => {
    const mixed = defineTask('mixed', {
      policy: { attempts: 2, backoff: { base: '10m' }, jitter: 'none' },
      handler: (what: string) => {
        if (what === 'skip') return skip('nothing to do')
        if (what === 'later') return later('10m')
        if (what === 'bug') throw new FinalError('never')
        if (what === 'fail') throw new Error('not yet')
        if (what === 'limit') throw new RateLimitedError('too many', { retryAfterMs: 600_000 })
        return what
      },
    })
    const { queue, drain, store } = bench([mixed], { concurrency: 2 })
    const fine = Array.from({ length: 20 }, () => ({ payload: 'fine' }))
    await queue.enqueueMany(mixed, fine)
    const others = ['skip', 'later', 'bug', 'fail', 'limit'].map((payload, i) => ({ payload, key: `k${i}` }))
    await queue.enqueueMany(mixed, others)
    expect(await drain()).toEqual({ ran: 25, succeeded: 21, failed: 3, dead: 1, ended: 'empty' })
    expect(await store.count({})).toMatchObject({ succeeded: 20, skipped: 1, dead: 1, waiting: 3, running: 0 })
  })

  it('runs retries and new tasks that become due while it runs, and those due within a second', async () => {
    const ran: string[] = []
    const { queue, drain, clock } = bench([
      defineTask('parent', {
        policy: { attempts: 3, backoff: { kind: 'fixed', base: '900ms' }, jitter: 'none' },
        handler: async (_: null, { attempt }) => {
          ran.push(`parent ${attempt}`)
          if (attempt < 3) throw new Error('not yet')
          await queue.enqueue(quick, null)
        },
      }),
      defineTask('quick', { handler: () => void ran.push('quick') }),
    ])
    await queue.enqueue(defineTask('parent', { handler: (_: null) => {} }), null)
    const drained = drain()
    await clock.advance('900ms')
    await clock.advance('900ms')
    expect(await drained).toEqual({ ran: 4, succeeded: 2, failed: 2, dead: 0, ended: 'empty' })
    expect(ran).toEqual(['parent 1', 'parent 2', 'parent 3', 'quick'])
  })

  it('leaves paused and held work alone', async () => {
    const { queue, drain, store } = bench([quick])
    await queue.enqueueMany(quick, [
      { payload: null, key: 'a' },
      { payload: null, key: 'b' },
    ])
    await store.pause({ kind: 'quick', key: 'a' }, { isPaused: true })
    expect(await drain()).toMatchObject({ ran: 1, ended: 'empty' })
    expect(await store.count({})).toMatchObject({ waiting: 1, succeeded: 1 })
  })

  it('keeps to a rate, and does not give up between two starts', async () => {
    const { queue, drain, store, clock } = bench([quick])
    await store.limit({ kind: 'quick' }, { perSecond: 2 })
    await queue.enqueueMany(
      quick,
      Array.from({ length: 6 }, () => ({ payload: null })),
    )
    const drained = drain()
    for (let i = 0; i < 8; i++) await clock.advance('500ms')
    expect(await drained).toMatchObject({ ran: 6, succeeded: 6, ended: 'empty' })
  })

  it('does not wait for ever since tasks of other kinds are due again and again', async () => {
    const { queue, drain, clock, store } = bench([quick])
    const other = defineTask('other', { handler: (_: null) => {} })
    const delays = Array.from({ length: 20 }, (_, i) => ({ payload: null, delay: 400 * (i + 1) }))
    await queue.enqueueMany(other, delays)
    const drained = drain()
    await clock.advance('1s')
    expect(await drained).toEqual({ ...NOTHING, ended: 'empty' })
    expect(await store.count({})).toMatchObject({ waiting: 20 })
  })

  it('claims no more than max, and waits for those', async () => {
    const slow = defineTask('slow', { handler: (_: null, { signal }) => sleep(5000, clock, signal) })
    const { queue, drain, store, clock } = bench([slow], { concurrency: 3 })
    await queue.enqueueMany(
      slow,
      Array.from({ length: 9 }, () => ({ payload: null })),
    )
    const drained = drain({ max: 4 })
    await clock.advance('5s')
    expect(await store.count({})).toMatchObject({ succeeded: 3, running: 1, waiting: 5 })
    await clock.advance('5s')
    expect(await drained).toEqual({ ran: 4, succeeded: 4, failed: 0, dead: 0, ended: 'max' })
  })

  it('stops claiming at its deadline, gives running tasks the grace period, and hands back the rest', async () => {
    const slow = defineTask('slow', { handler: (ms: number, { signal }) => sleep(ms, clock, signal) })
    const { queue, drain, store, clock } = bench([slow], { concurrency: 2, grace: '10s' })
    const [, hanging] = await queue.enqueueMany(slow, [{ payload: 55_000 }, { payload: 3_600_000 }, { payload: 1 }])
    const drained = drain({ deadline: '50s' })
    await clock.advance('50s')
    expect(await store.count({})).toMatchObject({ running: 2, waiting: 1 })
    await clock.advance('10s')
    expect(await drained).toEqual({ ran: 1, succeeded: 1, failed: 0, dead: 0, ended: 'deadline' })
    expect(await store.count({})).toMatchObject({ succeeded: 1, waiting: 2, running: 0 })
    expect(await store.ledger(hanging?.id ?? '')).toEqual([])
    expect(await store.workers()).toEqual([])
  })

  it('hands back tasks that it gets after its deadline', async () => {
    const { queue, make, store, clock } = bench([quick])
    await queue.enqueue(quick, null)
    const claim = store.claim.bind(store)
    const worker = make()
    store.claim = async request => {
      await clock.advance('50s')
      return claim(request)
    }
    expect(await worker.drain({ deadline: '50s' })).toEqual({ ...NOTHING, ended: 'deadline' })
    expect(await store.count({})).toMatchObject({ waiting: 1, running: 0 })
  })

  it('decides on attempts whose workers died, and runs their tasks again', async () => {
    const { queue, drain, store, clock } = bench([quick])
    await queue.enqueue(quick, null)
    await store.claim({ worker: 'dying', leaseMs: 1000, rooms: [{ kinds: ['quick'] }], limit: 1, isIdle: true })
    expect(await drain()).toEqual({ ...NOTHING, ended: 'empty' })
    await clock.advance('1s')
    expect(await drain({ max: 1 })).toEqual({ ran: 1, succeeded: 1, failed: 0, dead: 0, ended: 'max' })
  })

  it('fires the schedules that are due', async () => {
    const hourly = schedule('hourly', { every: '1h', task: quick })
    const { drain, clock } = bench([quick], { schedules: [hourly] })
    expect(await drain()).toMatchObject({ ran: 0 })
    await clock.advance('1h')
    expect(await drain()).toMatchObject({ ran: 1, succeeded: 1, ended: 'empty' })
  })

  it('ends if the worker is stopped meanwhile', async () => {
    const slow = defineTask('slow', { handler: (_: null, { signal }) => sleep(3_600_000, clock, signal) })
    const { queue, make, clock, store } = bench([slow], { grace: 0 })
    await queue.enqueue(slow, null)
    const worker = make()
    const drained = worker.drain()
    await clock.advance(0)
    await worker.stop()
    expect(await drained).toEqual({ ...NOTHING, ended: 'stopped' })
    expect(await store.count({})).toMatchObject({ waiting: 1 })
  })

  it('is refused with options that make no sense, and on a worker that was started', async () => {
    const { make, drain } = bench([quick])
    await expect(drain({ max: 0 })).rejects.toThrow("'max' must be a whole number, 1 or more, got 0.")
    await expect(drain({ deadline: 'soon' as '1s' })).rejects.toThrow("'deadline'")
    await expect(drain(JSON.parse('{ "until": 1 }'))).rejects.toThrow("'until'")
    const worker = make()
    await worker.start()
    await expect(worker.drain()).rejects.toMatchObject({ code: 'worker_started' })
    await worker.stop()
    const drained = make()
    await drained.drain()
    await expect(drained.drain()).rejects.toMatchObject({ code: 'worker_started' })
  })
})

const folder = mkdtempSync(join(tmpdir(), 'redrive-drain-'))
afterAll(() => rmSync(folder, { recursive: true }))

const ENGINES = {
  memory: async (): Promise<StoreContract> => new MemoryStore(),
  sqlite: () => openSqlite(join(folder, 'drain.db')),
  postgres: async () => openPostgres(await freshDatabase()),
}

it.each(Object.entries(ENGINES))('drains that overlap share the work, on the %s store', async (_, open) => {
  const store = await open()
  const ran: number[] = []
  const note = defineTask('note', {
    policy: { attempts: 3, backoff: { kind: 'fixed', base: '20ms' } },
    handler: (n: number, { attempt }) => {
      if (n % 10 === 0 && attempt < 3) throw new Error('not yet')
      ran.push(n)
    },
  })
  const items = Array.from({ length: 200 }, (_, n) => ({ payload: n, key: `k${n % 7}` }))
  await new TaskQueue(store).enqueueMany(note, items)
  const drains = Array.from({ length: 4 }, () => new Worker(store, { tasks: [note], concurrency: 5 }).drain())
  const results = await Promise.all(drains)
  expect(new Set(results.map(({ ended }) => ended))).toEqual(new Set(['empty']))
  expect(results.reduce((sum, { ran, failed }) => sum + ran - failed, 0)).toBe(200)
  expect(ran.sort((a, b) => a - b)).toEqual(items.map(({ payload }) => payload))
  expect(await store.count({})).toMatchObject({ succeeded: 200, waiting: 0, running: 0 })
  expect(await store.workers()).toEqual([])
  await store.close()
})
