import { type Bus, MessageTooLargeError } from 'redrive/bus'
import { consume, type EventConsumer } from 'redrive/event'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { StoreContract } from '../../src/store/internal.js'
import { openPostgres } from '../../src/store/postgres/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import type { BrokerUrls } from '../services/broker.js'
import { freshDatabase } from '../services/fresh-database.js'
import { BROKER_MS, sharedBroker } from '../services/shared-broker.js'
import { BROKERS, freshNames } from './bus-brokers.js'
import { MEDDLING } from './event-brokers.js'

const WITHIN = { timeout: 120_000, interval: 20 }
const TEST = { timeout: 300_000 }
const TEN_MB = 10 * 1024 * 1024

interface Event {
  readonly id: string
  readonly filler?: string
}

describe.each(BROKERS)('an odd event from $name', kind => {
  const meddling = MEDDLING[kind.name]
  const { queue, type } = freshNames()
  let broker: BrokerUrls
  let bus: Bus
  let store: StoreContract
  let consumer: EventConsumer<Event>
  let handled: Event[]

  beforeAll(async () => {
    broker = await sharedBroker(kind.name)
  }, BROKER_MS)
  beforeEach(async () => {
    store = await openPostgres(await freshDatabase())
    bus = await kind.open(broker.url)
    await bus.declare({ [queue]: type })
    handled = []
    consumer = await consume<Event>(bus, queue, {
      store,
      service: 'faults',
      key: event => [event.id],
      handler: event => handled.push(event),
    })
  })
  afterEach(async () => {
    await consumer.stop()
    // The broker may take a moment to note what was acknowledged.
    const left = async () => (await bus.status({ [queue]: type })).map(({ messages }) => messages)
    await expect.poll(left, WITHIN).toEqual([0, 0])
    await checkInvariants(store)
    await bus.close()
    await store.close()
  })

  const publish = (id: string, body: string | Uint8Array) => bus.publish({ id, type, body })
  const ordinary = (id: string) => publish(id, JSON.stringify({ id }))

  it('that is no JSON is a dead letter with what came instead, and the next is handled', TEST, async () => {
    const bodies = { cut: '{"id": "m1', bytes: Uint8Array.of(0xff, 0x00, 0xfe), nul: '\0', half: '"\\ud800', empty: '' }
    for (const [id, body] of Object.entries(bodies)) await publish(id, body)
    await ordinary('next')
    await expect.poll(() => handled, WITHIN).toEqual([{ id: 'next' }])
    await expect.poll(async () => (await store.count({})).dead, WITHIN).toBe(5)
    const storedAs = async (id: string) => JSON.parse((await store.get(`${queue}/${id}`))?.payload ?? '')
    expect(await storedAs('cut')).toMatchObject({ raw_body: '{"id": "m1' })
    const bytes = await storedAs('bytes')
    expect(bytes).toMatchObject({ encoding: 'base64' })
    expect(Buffer.from(bytes.raw_body, 'base64')).toEqual(Buffer.from(bodies.bytes))
  })

  it('that is JSON, but has nothing to make a key of, is a dead letter', TEST, async () => {
    for (const body of ['null', '{"id": ""}']) await publish(`odd ${body}`, body)
    await ordinary('next')
    await expect.poll(async () => (await store.count({})).dead, WITHIN).toBe(2)
    await expect.poll(() => handled, WITHIN).toEqual([{ id: 'next' }])
  })

  it('that has no id is handled; one that fails waits in the store under what it holds', TEST, async () => {
    await meddling.publishBare(broker.url, type, '{"id":"bare"}')
    await expect.poll(() => handled, WITHIN).toEqual([{ id: 'bare' }])
    for (let time = 0; time < 3; time++) await meddling.publishBare(broker.url, type, 'no JSON')
    await ordinary('next')
    await expect.poll(() => handled, WITHIN).toHaveLength(2)
    await expect.poll(async () => (await store.count({})).dead, WITHIN).toBe(1)
  })

  it('of 10 MB is refused at its publish; one that the broker takes is handled', TEST, async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('The limit of somebody else’s server is not known.')
    const sized = (bytes: number) => JSON.stringify({ id: 'large', filler: 'x'.repeat(bytes) })
    await expect(publish('large', sized(TEN_MB))).rejects.toThrow(MessageTooLargeError)
    await publish('large', sized(meddling.maxBytes - 1000))
    await expect.poll(() => handled.map(({ filler }) => filler?.length), WITHIN).toEqual([meddling.maxBytes - 1000])
  })
})
