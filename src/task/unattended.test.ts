import { expect, it } from 'vitest'
import { storeFigures, why } from '../operate/index.js'
import { MemoryStore } from '../store/internal.js'
import type { WorkEvent } from '../telemetry/index.js'
import { fakeClock } from '../testing/index.js'
import { type Death, declareTask, defineTask, TaskQueue, Worker } from './index.js'

const MINUTE = 60_000
const T0 = Date.parse('2027-05-01T00:00:00Z')

/** A kind with a time to live of an hour, whose worker has run once and is gone, and another kind. */
async function scene() {
  const clock = fakeClock(T0)
  const store = new MemoryStore({ clock })
  const events: WorkEvent[] = []
  const ran: string[] = []
  const told: Death[] = []
  const tell = defineTask(declareTask<Death>('tell'), { handler: death => void told.push(death) })
  const mortal = defineTask('mortal', {
    policy: { ttl: '1h' },
    onDead: tell,
    handler: (_: null, { id }) => void ran.push(id),
  })
  const immortal = defineTask('immortal', { handler: (_: null) => {} })
  const worker = (...tasks: readonly (typeof mortal | typeof immortal | typeof tell)[]) =>
    new Worker(store, { tasks: tasks as never, clock, sink: event => events.push(event) })
  const declaring = worker(mortal, immortal)
  await declaring.start()
  await declaring.stop()
  const other = worker(tell)
  await other.start()
  const statusOf = async (id: string) => (await store.get(id))?.status
  return { clock, store, events, ran, told, mortal, immortal, worker, other, statusOf, queue: new TaskQueue(store) }
}

it('a worker of another kind gives up tasks whose time to live is over, and their death is followed and told', async () => {
  const { clock, store, events, told, mortal, immortal, other, queue, statusOf } = await scene()
  await queue.enqueue(mortal, null, { id: 'old' })
  await queue.enqueue(immortal, null, { id: 'never' })
  await clock.advance(30 * MINUTE)
  await queue.enqueue(mortal, null, { id: 'young' })
  await queue.enqueue(mortal, null, { id: 'late', runAt: T0 + 40 * MINUTE })
  await clock.advance(29 * MINUTE)
  expect(await statusOf('old')).toBe('waiting')
  await clock.advance(3 * MINUTE)
  expect(await store.get('old')).toMatchObject({ status: 'dead', reason: 'ttl_expired', attempts: 0 })
  expect(told).toMatchObject([{ id: 'old', kind: 'mortal', reason: 'ttl_expired', attempts: 0 }])
  expect(events.filter(({ type }) => type === 'gave_up')).toMatchObject([
    { work: { kind: 'task', id: 'old', name: 'mortal' }, reason: 'ttl_expired' },
  ])
  await clock.advance(30 * MINUTE)
  expect(await Promise.all(['young', 'late', 'never'].map(statusOf))).toEqual(['dead', 'waiting', 'waiting'])
  await clock.advance(10 * MINUTE)
  expect(await Promise.all(['late', 'never'].map(statusOf))).toEqual(['dead', 'waiting'])
  await other.stop()
})

it('tasks that a live worker may run are left to it, however long they wait', async () => {
  const { clock, store, mortal, other, queue, statusOf } = await scene()
  const choosy = new Worker(store, { tasks: [mortal], categories: ['mail'], concurrency: 1, clock, name: 'zoe' })
  await choosy.start()
  await store.limit({ kind: 'mortal', category: 'mail' }, { perSecond: 1 / 86_400 })
  const tasks = ['a', 'b'].map(id => ({ payload: null, id, category: 'mail' }))
  await queue.enqueueMany(mortal, tasks)
  await queue.enqueue(mortal, null, { id: 'c', category: 'bulk' })
  await clock.advance(62 * MINUTE)
  expect(await Promise.all(['a', 'b', 'c'].map(statusOf))).toEqual(['succeeded', 'waiting', 'dead'])
  await choosy.stop()
  await clock.advance(2 * MINUTE)
  expect(await statusOf('b')).toBe('dead')
  await other.stop()
})

it('a kind that was released without a time to live is left alone', async () => {
  const { clock, store, mortal, other, queue, statusOf } = await scene()
  const next = new Worker(store, { tasks: [defineTask('mortal', { handler: () => {} })], clock })
  await next.start()
  await next.stop()
  await queue.enqueue(mortal, null, { id: 'a' })
  await clock.advance(62 * MINUTE)
  expect(await statusOf('a')).toBe('waiting')
  await other.stop()
})

it('many tasks are given up in one look, and those behind many that live on in one of the next', async () => {
  const { clock, mortal, other, queue, statusOf, store } = await scene()
  const payloads = (count: number) => Array.from({ length: count }, () => ({ payload: null }))
  await queue.enqueueMany(mortal, [{ payload: null, id: 'first' }, ...payloads(2500)])
  await clock.advance(30 * MINUTE)
  await other.stop()
  await clock.advance(30 * MINUTE)
  await queue.enqueueMany(mortal, payloads(2500))
  const next = new Worker(store, { tasks: [defineTask('next', { handler: () => {} })], clock })
  await next.start()
  await clock.advance(MINUTE)
  await clock.advance(2 * MINUTE)
  expect(await store.count({ kind: 'mortal' })).toMatchObject({ waiting: 2500, dead: 2501 })
  expect(await statusOf('first')).toBe('dead')
  await next.stop()
})

it('`why` and the figures of a store say when such tasks end', async () => {
  const { clock, store, mortal, other, queue } = await scene()
  await queue.enqueue(mortal, null, { id: 'a', category: 'bulk' })
  await clock.advance(MINUTE)
  expect((await why(store, 'a'))?.causes).toMatchObject([
    {
      code: 'no_worker',
      text: expect.stringContaining('ends at 2027-05-01 01:00:00Z: any worker gives it up then'),
      facts: { expiresAt: '2027-05-01T01:00:00.000Z' },
    },
  ])
  const unattended = [{ kind: 'mortal', category: 'bulk', waiting: 1, ttlMs: 60 * MINUTE }]
  expect(await storeFigures(store)).toMatchObject({ unattended })
  await other.stop()
  expect((await why(store, 'a'))?.answer).toContain('the next worker that starts gives it up')
})
