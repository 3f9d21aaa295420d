import { describe, expect, it } from 'vitest'
import { FinalError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { fakeClock } from '../testing/index.js'
import { type Death, declareTask, defineTask, type TaskDefinition, TaskQueue, Worker } from './index.js'

/** A store, a queue and a worker on a clock that the test moves. */
async function bench(tasks: readonly TaskDefinition[]) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const worker = new Worker(store, { tasks, clock })
  await worker.start()
  return { clock, store, queue: new TaskQueue(store), worker }
}

const tell = declareTask<Death>('tell')
const charge = defineTask('charge', {
  policy: { attempts: 2, backoff: { base: '1s' }, ttl: '1h' },
  onDead: tell,
  handler: async (order: { code?: string }) => {
    if (order.code !== undefined) throw new FinalError('declined', { code: order.code })
    throw new Error('unreachable')
  },
})

/** Takes the deaths that it is told of. */
function listener() {
  const told: Death[] = []
  return { told, task: defineTask(tell, { handler: death => void told.push(death) }) }
}

describe('onDead', () => {
  it('enqueues a task with the death, in the lane of the same key, that says what died and of what', async () => {
    const { told, task } = listener()
    const { clock, queue, store } = await bench([charge, task])
    await queue.enqueue(charge, { code: 'card_declined' }, { id: 'order-1', key: 'acme', category: 'eu' })
    await clock.advance(0)
    expect(told).toEqual([
      {
        id: 'order-1',
        kind: 'charge',
        category: 'eu',
        key: 'acme',
        reason: 'final_error',
        errorCode: 'card_declined',
        errorMessage: 'FinalError: declined',
        attempts: 1,
      },
    ])
    const [follower] = (await store.list({ kind: 'tell' }, { limit: 9 })).items
    expect(follower).toMatchObject({ key: 'acme', category: '', status: 'succeeded' })
    expect(follower?.id).toMatch(/^order-1\/dead\/[0-9a-f]{16}$/)
  })

  it('comes once for each death: after the last attempt, and again after a redrive', async () => {
    const { told, task } = listener()
    const { clock, queue } = await bench([charge, task])
    await queue.enqueue(charge, {}, { id: 'order-2' })
    await clock.advance(5000)
    expect(told.map(({ reason, attempts }) => [reason, attempts])).toEqual([['attempts_exhausted', 2]])
    await queue.redrive('order-2', { who: 'ada' })
    await clock.advance(5000)
    expect(told).toHaveLength(2)
  })

  it('follows a death of which no attempt was made: the time to live was over', async () => {
    const { told, task } = listener()
    const { clock, queue, store } = await bench([task])
    await queue.enqueue(charge, {}, { id: 'late' })
    await clock.advance(3_600_000)
    const worker = new Worker(store, { tasks: [charge], clock })
    await worker.start()
    await clock.advance(1000)
    expect(told).toMatchObject([{ id: 'late', reason: 'ttl_expired', errorCode: null, attempts: 0 }])
  })

  it('follows the loss of too many workers', async () => {
    const { told, task } = listener()
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const fragile = defineTask('fragile', { policy: { losses: 1 }, onDead: tell, handler: () => {} })
    await new TaskQueue(store).enqueue(fragile, null, { id: 'killer' })
    await store.claim({ worker: 'dying', leaseMs: 1000, rooms: [{ kinds: ['fragile'] }], limit: 1, isIdle: true })
    await clock.advance(1000)
    await store.heartbeat({ worker: 'another', leaseMs: 1000 })
    await new Worker(store, { tasks: [fragile, task], clock }).start()
    await clock.advance(1000)
    expect(told).toMatchObject([{ id: 'killer', errorCode: 'lost', attempts: 0 }])
  })

  it('never follows itself: the death of a task that followed one is the end of it', async () => {
    const loop = declareTask<Death>('loop')
    const looping = defineTask('loop', {
      policy: { attempts: 1 },
      onDead: loop,
      handler: (_: Death) => {
        throw new Error('no')
      },
    })
    const { clock, queue, store } = await bench([looping])
    const death = { id: 'x', kind: 'k', category: '', key: '', errorCode: null, errorMessage: null, attempts: 0 }
    await queue.enqueue(looping, { ...death, reason: 'final_error' }, { id: 'first' })
    await clock.advance(60_000)
    const ids = (await store.list({}, { limit: 9 })).items.map(({ id }) => id)
    expect(ids.sort()).toEqual(['first', expect.stringMatching(/^first\/dead\/[0-9a-f]{16}$/)])
  })

  it('has an id that can be stored, however long that of the letter is', async () => {
    const { told, task } = listener()
    const { clock, queue } = await bench([charge, task])
    await queue.enqueue(charge, { code: 'no' }, { id: 'x'.repeat(512) })
    await clock.advance(0)
    expect(told).toMatchObject([{ id: 'x'.repeat(512) }])
  })

  it('must be a task', () => {
    expect(() => declareTask('work', { onDead: JSON.parse('{}') })).toThrow(
      "'onDead' of the task 'work' must be what declareTask() or defineTask() returns.",
    )
  })
})
