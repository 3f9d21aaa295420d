import { expect, it } from 'vitest'
import { RateLimitedError } from '../policy/index.js'
import { type LedgerRow, MemoryStore } from '../store/index.js'
import { defineTask, TaskQueue, Worker } from '../task/index.js'
import { Engine, taskKind, type WorkKind } from '../task/internal.js'
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
  const { discrepancies, ...counts } = await verify(store)
  expect(discrepancies).toEqual([])
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

it('names the row whose decision is not the one that the kernel makes', async () => {
  const store = await eventful()
  const tampered = async (id: string): Promise<LedgerRow[]> => {
    const rows = await store.ledger(id)
    return id === 't5' ? rows.map(row => (row.outcome === 'retry' ? { ...row, delayMs: 1 } : row)) : rows
  }
  const { discrepancies } = await verify({
    list: (filter, page) => store.list(filter, page),
    policies: store.policies,
    ledger: tampered,
  })
  expect(discrepancies.length).toBeGreaterThan(0)
  expect(discrepancies[0]).toMatchObject({ taskId: 't5', recorded: 'retry after 1 ms' })
})
