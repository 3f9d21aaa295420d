import { type Bus, type Delivery, textOf } from 'redrive/bus'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { bodies, collect } from '../../src/testing/bus-conformance/harness.js'
import type { BrokerUrls } from '../services/broker.js'
import { BROKER_MS, sharedBroker } from '../services/shared-broker.js'
import { BROKERS, freshNames } from './bus-brokers.js'

const TEN_MB = 10 * 1024 * 1024

describe.each(BROKERS)('a failed queue of $name', kind => {
  let broker: BrokerUrls
  let bus: Bus
  let queue: string
  let type: string

  beforeAll(async () => {
    broker = await sharedBroker(kind.name)
  }, BROKER_MS)
  beforeEach(async () => {
    const names = freshNames()
    queue = names.queue
    type = names.type
    bus = await kind.open(broker.url)
    await bus.declare({ [queue]: type })
  })
  afterEach(() => bus.close())

  /** Consumes one event, and acknowledges it only if it could be put into a failed queue. Returns why it could not. */
  async function deadLetter(bus: Bus, failedQueue: string): Promise<unknown> {
    let failure: unknown
    const held: Delivery[] = []
    await bus.consume(queue, async delivery => {
      held.push(delivery)
      const letter = { id: `${delivery.id}`, type, body: textOf(delivery) }
      await bus.put(failedQueue, letter).then(
        () => delivery.ack(),
        error => {
          failure = error
        },
      )
    })
    await vi.waitUntil(() => failure !== undefined, { timeout: 120_000 })
    expect(held).toHaveLength(1)
    return failure
  }

  /** Returns the delivery that a new consumer gets, as after a restart. */
  async function redelivered(): Promise<string> {
    const other = await kind.open(broker.url)
    const { deliveries, reach } = await collect(other, queue)
    await reach(1)
    await other.close()
    return bodies(deliveries).join()
  }

  it('that does not exist refuses the letter, and the event stays unacknowledged', { timeout: 300_000 }, async () => {
    await bus.publish({ id: '1', type, body: 'precious' })
    expect(await deadLetter(bus, 'nowhere.failed')).toMatchObject({ code: 'no_queue' })
    await bus.close()
    expect(await redelivered()).toBe('precious')
  })

  it('that is full refuses the letter, and the event stays unacknowledged', { timeout: 300_000 }, async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('A limit is set on a server of our own alone.')
    await kind.limitToOne(broker, `${queue}.failed`)
    await bus.put(`${queue}.failed`, { id: '0', type, body: 'first' })
    // RabbitMQ takes a while to apply a policy.
    const refused = () =>
      bus.put(`${queue}.failed`, { id: 'x', type, body: 'filler' }).then(
        () => false,
        () => true,
      )
    await vi.waitUntil(refused, { timeout: 120_000, interval: 50 })

    await bus.publish({ id: '1', type, body: 'precious' })
    expect(await deadLetter(bus, `${queue}.failed`)).toMatchObject({ code: 'publish_refused' })
    const findings = await bus.examine({ [queue]: type })
    await bus.close()
    expect(await redelivered()).toBe('precious')
    // Without its management, RabbitMQ does not show what a policy says.
    const expected = kind.name === 'nats' ? 'length_limit' : 'unseen'
    expect(findings.map(({ code }) => code)).toContain(expected)
  })

  it('takes what is not JSON, and refuses 10 MB with a clear error that harms nothing else', {
    timeout: 300_000,
  }, async ({ skip }) => {
    if (broker.httpUrl === undefined) skip('The limit of somebody else’s server is not known.')
    const large = { id: 'large', type, body: new Uint8Array(TEN_MB) }
    for (const publish of [() => bus.publish(large), () => bus.put(`${queue}.failed`, large)]) {
      await expect(publish()).rejects.toMatchObject({
        code: 'message_too_large',
        message: expect.stringMatching(/'large' has 10485760 bytes, and the broker takes up to \d+/),
      })
    }
    const body = Uint8Array.of(0xff, 0x00, 0xfe)
    await bus.put(`${queue}.failed`, { id: 'odd', type, body })
    for await (const message of bus.browse(`${queue}.failed`)) expect([...message.body]).toEqual([...body])
  })
})
