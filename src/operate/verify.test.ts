import { expect, it } from 'vitest'
import { encrypted } from '../codec/index.js'
import { Engine, type WorkKind } from '../engine/internal.js'
import { canonicalJson, RateLimitedError } from '../policy/index.js'
import type { LedgerRow } from '../store/index.js'
import { type ClaimedTask, MemoryStore, type Outcome } from '../store/internal.js'
import { defineTask, TaskQueue, Worker } from '../task/index.js'
import { taskKind } from '../task/internal.js'
import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { verify } from './index.js'

/** A store in which tasks were retried, deferred, given up, lost and redriven. */
async function eventful() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  let calls = 0
  const task = defineTask('task', {
    policy: { attempts: 3, backoff: { base: '10s', max: '1m' }, jitter: 'full', ttl: '1h' },
    handler: () => {
      if (++calls % 4 === 0) throw new RateLimitedError('wait', { retryAfterMs: 5000 })
      throw new Error('down')
    },
  })
  await queue.enqueueMany(
    task,
    Array.from({ length: 20 }, (_, n) => ({ payload: null, id: `t${n}`, key: `k${n % 7}` })),
  )
  await store.claim({ worker: 'dead', leaseMs: 1000, rooms: [{ kinds: ['task'] }], limit: 1, isIdle: true })
  const worker = new Worker(store, { tasks: [task], clock })
  await worker.start()
  await clock.advance('30m')
  await queue.redrive(['t1', 't2'], { who: 'ada' })
  await clock.advance('30m')
  await worker.stop()
  return store
}

it('finds nothing to say of a store that nobody has tampered with', async () => {
  const store = await eventful()
  const { discrepancies, problems, ...counts } = await verify(store)
  expect(discrepancies).toEqual([])
  expect(problems).toEqual([])
  expect(counts).toMatchObject({ tasks: 20, unknown: 0 })
  expect(counts.decisions).toBeGreaterThanOrEqual(60)
})

it('finds nothing to say of what was cancelled while it ran, nor of a dead letter that was taken elsewhere', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const policy = { attempts: 2, backoff: { base: '10s' } } as const
  const handler = async () => {
    await sleep(1000, clock)
    throw new Error('down')
  }
  const task = defineTask('task', { policy, handler })
  const buried: WorkKind = {
    ...taskKind(defineTask('buried', { policy, handler }), store),
    bury: async () => ({ type: 'skipped', reason: 'It lies elsewhere.' }),
  }
  for (const id of ['failed', 'lost']) await queue.enqueue(task, null, { id })
  await store.enqueue([{ kind: 'buried', payload: 'null', id: 'buried' }])
  await store.claim({ worker: 'dead', leaseMs: 1, rooms: [{ kinds: ['task'] }], limit: 1, isIdle: true })
  const engine = new Engine(store, [taskKind(task, store), buried], { clock })
  await engine.start()
  await clock.advance(500)
  await queue.cancel(['failed', 'lost'])
  await clock.advance('1h')
  await engine.stop()
  expect(await store.count({})).toMatchObject({ cancelled: 2, skipped: 1 })
  expect(await verify(store)).toMatchObject({ decisions: 1, discrepancies: [] })
})

it('recomputes the decisions on lost attempts, whenever they were made and also after a redrive', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const { policy, policyHash } = defineTask('task', { policy: { losses: 2, ttl: '1h' }, handler: () => {} })
  await store.policies.keep(policyHash, canonicalJson(policy))
  const claim = async (kind: string) => {
    const rooms = [{ kinds: [kind] }]
    const { tasks } = await store.claim({ worker: 'w', leaseMs: 1000, rooms, limit: 1, isIdle: true })
    return tasks[0] as ClaimedTask
  }
  /** A worker dies with a task, and another one decides on it some time later. */
  const lose = async (kind: string, outcome: Outcome, laterMs = 0) => {
    const started = await claim(kind)
    expect(started.isUndecided).toBe(false)
    await clock.advance(1000)
    await store.heartbeat({ worker: 'another', leaseMs: 1000 })
    await clock.advance(laterMs)
    const { id, token, attempts, changedAt } = await claim(kind)
    const facts = { verdict: { class: 'retryable', code: 'lost' }, random: 0.5, policy: policyHash } as const
    const attempt = { attempt: attempts + 1, startedAt: changedAt, endedAt: changedAt, worker: 'w', ...facts }
    await store.settle([{ id, token, outcome, attempt }])
  }
  const retry = { type: 'retry', delayMs: 0, isBackoff: false } as const
  const exhausted = { type: 'dead', reason: 'losses_exhausted' } as const
  await store.enqueue(['killer', 'late', 'wrong'].map(kind => ({ id: kind, kind, payload: '1' })))
  await lose('killer', retry)
  await lose('killer', exhausted)
  await store.redrive(['killer'], { who: 'ada' })
  await lose('killer', exhausted)
  await lose('wrong', exhausted)
  await lose('late', { type: 'dead', reason: 'ttl_expired' }, 2 * 3_600_000)
  const { decisions, discrepancies } = await verify(store)
  expect(decisions).toBe(5)
  const difference = { recorded: 'gave up: losses_exhausted', recomputed: 'retry after 0 ms' }
  expect(discrepancies).toEqual([{ taskId: 'wrong', sequence: 1, ...difference }])
})

it('finds nothing to say of a delayed task that was redriven, whose time to live began when it was due', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const task = defineTask('task', {
    policy: { attempts: 5, backoff: { kind: 'fixed', base: '4m' }, jitter: 'none', ttl: '10m' },
    handler: () => {
      throw new Error('down')
    },
  })
  const worker = new Worker(store, { tasks: [task], clock })
  await queue.enqueue(task, null, { id: 'late', delay: '1h' })
  await worker.start()
  await clock.advance('2h')
  expect(await store.get('late')).toMatchObject({ status: 'dead', reason: 'ttl_expired' })
  await queue.redrive('late', { who: 'ada' })
  await clock.advance('1h')
  await worker.stop()
  const thrice = ['retry', 'retry', 'dead']
  expect((await store.ledger('late')).map(({ outcome }) => outcome)).toEqual([...thrice, 'redriven', ...thrice])
  expect(await verify(store)).toMatchObject({ decisions: 6, discrepancies: [] })
})

it('names the row whose decision is not the one that the kernel makes', async () => {
  const store = await eventful()
  const ledgersOf = store.ledgers.bind(store)
  const tampered = (row: LedgerRow) => (row.outcome === 'retry' ? { ...row, delayMs: 1 } : row)
  const ledgers = async (ids: readonly string[]) =>
    (await ledgersOf(ids)).map((rows, index) => (ids[index] === 't5' ? rows.map(tampered) : rows))
  const { discrepancies } = await verify(Object.assign(store, { ledgers }))
  expect(discrepancies.length).toBeGreaterThan(0)
  expect(discrepancies[0]).toMatchObject({ taskId: 't5', recorded: 'retry after 1 ms' })
})

it('takes what a codec has encoded for sound, and names what it cannot have encoded', async () => {
  const store = new MemoryStore()
  const codec = encrypted({ keys: { k: Buffer.alloc(32, 1).toString('base64') }, current: 'k' })
  const task = defineTask('secret', { codec, handler: (_: { card: string }) => {} })
  await new TaskQueue(store).enqueue(task, { card: '4111' }, { id: 'sound' })
  expect((await verify(store)).problems).toEqual([])
  const [sound] = (await store.list({}, { limit: 1 })).items
  await store.enqueue([{ id: 'cut', kind: 'secret', payload: `${sound?.payload.slice(0, 40)}!` }])
  expect((await verify(store)).problems).toEqual([
    { taskId: 'cut', problem: 'its payload is not what a codec has encoded' },
  ])
})

it('takes a task that is settled between two reads for sound', async () => {
  const store = await eventful()
  const { id } = (await store.list({ status: 'dead' }, { limit: 1 })).items[0] ?? { id: '' }
  const ledgersOf = store.ledgers.bind(store)
  let isMoved = false
  const ledgers = async (ids: readonly string[]) => {
    if (!isMoved) await store.redrive([id], { who: 'ada' })
    isMoved = true
    return ledgersOf(ids)
  }
  const { problems } = await verify(Object.assign(store, { ledgers }))
  expect(problems).toEqual([])
})
