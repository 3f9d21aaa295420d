import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { BrokerUrls } from '../../test/services/broker.js'
import { nestedTable, publishToNats, publishToRabbitmq } from '../../test/services/odd-messages.js'
import { BROKER_MS, sharedBroker, unique } from '../../test/services/shared-broker.js'
import type { Bus } from '../bus/index.js'
import { openNats } from '../bus/nats/index.js'
import { openRabbitmq } from '../bus/rabbitmq/index.js'
import { MemoryStore } from '../store/internal.js'

import { browseAll } from '../testing/bus-conformance/harness.js'
import { consume, type EventContext } from './index.js'

const BODY = '{"ids":["odd"],"large":9007199254740993}'

const brokers = [
  {
    name: 'nats' as const,
    open: ({ url }: BrokerUrls) => openNats(url, { prefix: 'odd' }),
    publishOdd: ({ url }: BrokerUrls, type: string) => publishToNats(url, `odd.${type}`, 'trace: 7\r\na b: 1', BODY),
    raw: expect.stringContaining('a b: 1'),
  },
  {
    name: 'rabbitmq' as const,
    open: ({ url }: BrokerUrls) => openRabbitmq(url, { exchange: 'odd' }),
    publishOdd: ({ url }: BrokerUrls, type: string) => publishToRabbitmq(url, 'odd', type, nestedTable(8000), BODY),
    raw: expect.any(String),
  },
]

describe.each(brokers)('a message on $name whose headers cannot be read', ({ name, open, publishOdd, raw }) => {
  let broker: BrokerUrls
  let bus: Bus
  beforeAll(async () => {
    broker = await sharedBroker(name)
    bus = await open(broker)
  }, BROKER_MS)
  afterAll(() => bus.close())

  /** A consumer that is sent such a message among good ones, and the ids that it handled. */
  async function consumeOdd(deadLetters: 'store' | 'failed-queue') {
    const queue = unique('odd')
    const store = new MemoryStore()
    await bus.declare({ [queue]: queue })
    const handled: string[] = []
    const handler = ({ ids }: { ids: string[] }, { headers }: EventContext) => {
      handled.push([...ids, headers.trace].join(' ').trim())
    }
    const key = (event: { ids: string[] }) => event.ids
    const consumer = await consume(bus, queue, { service: 'odd', key, store, handler, deadLetters })
    const publishGood = (id: string) => bus.publish({ id, type: queue, body: JSON.stringify({ ids: [id] }) })
    await publishGood('first')
    await publishOdd(broker, queue)
    await publishGood('last')
    await expect.poll(() => handled, { timeout: 10_000 }).toEqual(['first', 'last'])
    return { queue, store, handled, consumer }
  }

  it('is a dead letter in the store, and is handled once a person redrives it', { timeout: 20_000 }, async () => {
    const { store, handled, consumer } = await consumeOdd('store')
    await expect.poll(async () => (await store.count({ status: 'dead' })).dead, { timeout: 10_000 }).toBe(1)
    const [dead] = (await store.list({ status: 'dead' }, { limit: 1 })).items
    expect(dead).toMatchObject({ reason: 'final_error', errorCode: 'unreadable_headers' })
    expect(dead?.payload).toContain(`"event":${BODY}`)
    expect(JSON.parse(dead?.payload ?? '')).toMatchObject({ message: { unreadable: { raw } } })
    await store.redrive([dead?.id ?? ''], { who: 'ada' })
    await expect.poll(() => handled.length, { timeout: 10_000 }).toBe(3)
    expect(handled[2]).toBe(name === 'nats' ? 'odd 7' : 'odd')
    await consumer.stop()
  })

  it('is a dead letter in the failed queue, if that is its home', { timeout: 20_000 }, async () => {
    const { queue, consumer } = await consumeOdd('failed-queue')
    const letters = () => browseAll(bus, `${queue}.failed`)
    await expect.poll(async () => (await letters()).length, { timeout: 10_000 }).toBe(1)
    await consumer.stop()
    const [letter] = await letters()
    const text = Buffer.from(letter?.body ?? '').toString()
    expect(text).toContain(`{"original_event":${BODY},`)
    expect(JSON.parse(text)).toMatchObject({ abandoned_reason: 'non_retryable_error', original_headers: { raw } })
  })
})
