import { setTimeout as sleep } from 'node:timers/promises'
import { type Bus, type Delivery, type NewMessage, textOf } from 'redrive/bus'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { BrokerUrls } from '../services/broker.js'
import { type NetworkProxy, startProxy } from '../services/proxy.js'
import { BROKER_MS, sharedBroker } from '../services/shared-broker.js'
import { BROKERS, events, freshNames, numbers, publishPersistently } from './bus-brokers.js'

const WITHIN = { timeout: 120_000, interval: 20 }

describe.each(BROKERS)('a connection to $name that is cut', ({ name, open, confirmation }) => {
  let broker: BrokerUrls
  let proxy: NetworkProxy
  let bus: Bus
  let queue: string
  let type: string
  let event: NewMessage

  beforeAll(async () => {
    broker = await sharedBroker(name)
  }, BROKER_MS)

  beforeEach(async () => {
    const names = freshNames()
    queue = names.queue
    type = names.type
    event = { id: 'event-1', type, body: '1' }
    proxy = await startProxy(broker.url)
    bus = await open(proxy.through(broker.url), { timeout: '3s' })
    await bus.declare({ [queue]: type })
  })

  afterEach(async () => {
    proxy.repair()
    await bus.close()
    await proxy.close()
  })

  const isBack = () =>
    bus.status({ [queue]: type }).then(
      () => true,
      () => false,
    )

  /** The ids of what waits in the queue, acknowledged, over a connection of its own, until all that is expected is there. */
  async function drain(isAll: (ids: readonly unknown[]) => boolean): Promise<unknown[]> {
    const other = await open(broker.url)
    const ids: unknown[] = []
    await other.consume(queue, delivery => {
      ids.push(delivery.id)
      delivery.ack()
    })
    await vi.waitUntil(() => isAll(ids), WITHIN)
    await other.close()
    return ids
  }

  it('between a publish and its confirmation: it says so, and whoever publishes again under the same id loses nothing', {
    timeout: 120_000,
  }, async () => {
    await bus.publish({ ...event, id: 'before' })
    const cut = proxy.cutBeforeAnswer(confirmation)
    await expect(bus.publish(event)).rejects.toMatchObject({ code: 'publish_unconfirmed' })
    await cut
    await publishPersistently(bus, event)
    // The broker had it the first time: what it did not get rid of was the confirmation.
    expect((await drain(ids => ids.length >= 3)).slice(0, 3)).toEqual(['before', 'event-1', 'event-1'])
  })

  it('while a consumer has deliveries: all are handled in the end, and nothing is left', {
    timeout: 120_000,
  }, async () => {
    for (const event of events(type, 10)) await bus.publish(event)
    const held: Delivery[] = []
    const handled = new Set<string>()
    let isCut = false
    const consumer = await bus.consume(queue, delivery => {
      if (!isCut) return void held.push(delivery)
      handled.add(textOf(delivery))
      delivery.ack()
    })
    await vi.waitUntil(() => held.length === 10, WITHIN)
    isCut = true
    proxy.cut()
    // They are redelivered, or may still be acknowledged, as the broker has it: either way, not lost.
    await vi.waitUntil(isBack, WITHIN)
    for (const delivery of held) {
      delivery.ack()
      handled.add(textOf(delivery))
    }
    await expect.poll(async () => (await bus.status({ [queue]: type }))[0]?.messages, WITHIN).toBe(0)
    await consumer.stop()
    expect([...handled].sort()).toEqual(numbers(10).sort())
  })

  it('again and again, with nothing to deliver meanwhile: a consumer still never has more than its prefetch', {
    timeout: 120_000,
  }, async () => {
    const held: Delivery[] = []
    await bus.consume(queue, delivery => void held.push(delivery), { prefetch: 2 })
    for (let i = 0; i < 3; i++) {
      proxy.cut()
      // The last one has come back before the next one is cut.
      await vi.waitUntil(isBack, WITHIN)
    }
    for (const event of events(type, 10)) await publishPersistently(bus, event)
    await vi.waitUntil(() => held.length >= 2, WITHIN)
    await sleep(300)
    expect(held.map(textOf)).toEqual(numbers(10).slice(0, 2))
  })

  it('without a word, as by a black hole: a publish ends in time, and the next ones go through once it is repaired', {
    timeout: 300_000,
  }, async () => {
    await bus.publish({ ...event, id: 'before' })
    proxy.blackHole()
    await expect(bus.publish({ ...event, id: 'swallowed' })).rejects.toMatchObject({ code: 'publish_unconfirmed' })
    proxy.repair()
    await publishPersistently(bus, { ...event, id: 'after' })
    expect((await drain(ids => ids.includes('after')))[0]).toBe('before')
  })
})
