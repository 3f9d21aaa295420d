import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FinalError } from 'redrive'
import { type Bus, failedQueueOf } from 'redrive/bus'
import { type ConsumeOptions, consume, DocumentNotFoundError, type EventConsumer } from 'redrive/event'
import { groupFailedQueue, requeueFailedQueue } from 'redrive/operate'
import type { TaskStatus } from 'redrive/store'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { StoreContract } from '../../src/store/internal.js'
import { openSqlite } from '../../src/store/sqlite/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import type { BrokerUrls } from '../services/broker.js'
import { BROKER_MS, sharedBroker } from '../services/shared-broker.js'
import { BROKERS, freshNames } from './bus-brokers.js'
import { MEDDLING } from './event-brokers.js'

const WITHIN = { timeout: 120_000, interval: 20 }
const TEST = { timeout: 300_000 }

describe.each(BROKERS)('an event of $name whose dead letter', kind => {
  const meddling = MEDDLING[kind.name]
  let broker: BrokerUrls
  let folder: string
  let bus: Bus
  let store: StoreContract
  let queue: string
  let type: string
  let consumer: EventConsumer<{ readonly id: string }> | undefined

  beforeAll(async () => {
    broker = await sharedBroker(kind.name)
  }, BROKER_MS)
  beforeEach(async () => {
    const names = freshNames()
    queue = names.queue
    type = names.type
    folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
    store = await openSqlite(join(folder, 'redrive.db'))
    bus = await kind.open(broker.url)
    await bus.declare({ [queue]: type })
  })
  afterEach(async () => {
    await consumer?.stop()
    await checkInvariants(store)
    await bus.close()
    await store.close()
    rmSync(folder, { recursive: true })
  })

  /** Consumes events that all fail. Counts the attempts. */
  async function start(options: Partial<ConsumeOptions<{ readonly id: string }>> = {}) {
    const handler = vi.fn(() => {
      throw new FinalError('bad')
    })
    const key = (event: { readonly id: string }) => [event.id]
    const more = { store, key, handler, service: 'faults', deadLetters: 'failed-queue', ...options } as const
    consumer = await consume(bus, queue, more)
    return handler
  }

  const publish = (id: string, filler = '') => bus.publish({ id, type, body: JSON.stringify({ id, filler }) })
  const statusOf = async (id: string): Promise<TaskStatus | undefined> => (await store.get(`${queue}/${id}`))?.status
  const waiting = async () => (await bus.status({ [queue]: type }))[0]?.messages

  async function letters(): Promise<(string | undefined)[]> {
    const ids: (string | undefined)[] = []
    for await (const { id } of bus.browse(failedQueueOf(queue))) ids.push(id)
    return ids
  }

  it('has no failed queue to go to stays in its queue, and is one dead letter once there is one', TEST, async () => {
    await meddling.deleteFailedQueue(broker.url, queue)
    const handler = await start()
    await publish('precious')
    await vi.waitUntil(() => handler.mock.calls.length === 1, WITHIN)
    await sleep(300)
    expect(await statusOf('precious')).toBeUndefined()
    await consumer?.stop()
    await vi.waitUntil(async () => (await waiting()) === 1, WITHIN)

    await bus.declare({ [queue]: type })
    await start()
    await expect.poll(() => statusOf('precious'), WITHIN).toBe('skipped')
    expect(await letters()).toEqual(['precious'])
    await expect.poll(waiting, WITHIN).toBe(0)
  })

  it('was written by a consumer that died before that was on record is requeued once', TEST, async () => {
    const enqueue = vi.spyOn(store, 'enqueue').mockRejectedValue(new FinalError('died'))
    await start()
    await publish('precious')
    await expect(consumer?.stopped).rejects.toThrow('died')
    enqueue.mockRestore()
    await start()
    await expect.poll(() => statusOf('precious'), WITHIN).toBe('skipped')
    await consumer?.stop()
    // RabbitMQ cannot deduplicate.
    const copies = kind.name === 'rabbitmq' ? 1 : 0
    expect(await letters()).toHaveLength(1 + copies)
    const failedQueue = failedQueueOf(queue)
    expect(await groupFailedQueue(bus, failedQueue)).toMatchObject({ copies, groups: [{ count: 1 }] })
    expect(await requeueFailedQueue(bus, failedQueue)).toMatchObject({ requeued: 1, duplicates: copies })
    expect(await letters()).toEqual([])
    expect(await waiting()).toBe(1)
  })

  it('is refused by a full failed queue is kept until there is room, and others go on', TEST, async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('A limit is set on a server of our own alone.')
    const failedQueue = failedQueueOf(queue)
    await kind.limitToOne(broker, failedQueue)
    await bus.put(failedQueue, { id: 'first', type, body: '{}' })
    // RabbitMQ takes a while to apply a policy.
    const isFull = () =>
      bus.put(failedQueue, { id: 'first', type, body: '{}' }).then(
        () => false,
        () => true,
      )
    await vi.waitUntil(isFull, WITHIN)

    const handled: string[] = []
    await start({
      handler: ({ id }) => {
        handled.push(id)
        if (id === 'precious') throw new FinalError('bad')
      },
    })
    for (const id of ['precious', 'good-1', 'good-2']) await publish(id)
    await vi.waitUntil(() => handled.length === 3, WITHIN)
    await sleep(300)
    expect(await statusOf('precious')).toBeUndefined()

    while ((await letters()).includes('first'))
      for await (const letter of bus.browse(failedQueue)) if (letter.id === 'first') await letter.remove()
    await expect.poll(() => statusOf('precious'), WITHIN).toBe('skipped')
    expect(await letters()).toEqual(['precious'])
    expect(handled).toEqual(['precious', 'good-1', 'good-2'])
  })

  it('is too large for the broker, as its event was not, is kept by the store', TEST, async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('The limit of somebody else’s server is not known.')
    const filler = 'x'.repeat(meddling.maxBytes - 150)
    const attempts: string[] = []
    await start({
      policy: { attempts: 2, backoff: { base: '5ms' } },
      handler: ({ id }) => {
        attempts.push(id)
        throw id === 'at-once' ? new FinalError('bad') : new DocumentNotFoundError('never')
      },
    })
    await publish('at-once', filler)
    await publish('in-the-end', filler)
    await expect.poll(() => statusOf('at-once'), WITHIN).toBe('dead')
    await expect.poll(() => statusOf('in-the-end'), WITHIN).toBe('dead')
    await expect.poll(waiting, WITHIN).toBe(0)
    expect(await letters()).toEqual([])
    expect(attempts.sort()).toEqual(['at-once', 'in-the-end', 'in-the-end'])
  })

  it('is in the failed queue already is not written again when the event is delivered again', TEST, async () => {
    const handler = await start()
    await publish('twice')
    await expect.poll(() => statusOf('twice'), WITHIN).toBe('skipped')
    await publish('twice')
    await vi.waitUntil(() => handler.mock.calls.length === 2, WITHIN)
    await publish('later')
    await expect.poll(() => statusOf('later'), WITHIN).toBe('skipped')
    await consumer?.stop()
    expect(await letters()).toEqual(['twice', 'later'])
    await expect.poll(waiting, WITHIN).toBe(0)
  })
})
