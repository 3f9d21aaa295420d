import assert from 'node:assert/strict'
import type { Delivery } from '../../bus/index.js'
import {
  assertRefused,
  assertSame,
  type BusBehaviours,
  bodies,
  collect,
  declared,
  drain,
  numbers,
  publishAll,
  settle,
  until,
} from './harness.js'

/** Well below what a broker waits for by itself, well above what a busy machine takes. */
const SOON_MS = 5000

export const CONSUME: BusBehaviours = {
  async 'what is acknowledged is not delivered again'(scene) {
    await declared(scene)
    await publishAll(scene, numbers(3))
    assert.deepEqual(await drain(scene.bus, scene.queue, 3), numbers(3))
    assert.deepEqual(await drain(scene.bus, scene.queue, 0), [])
  },

  async 'what is given back is delivered again, at once, and says so'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await publishAll(scene, ['once more'])
    const onDelivery = (delivery: Delivery) => (delivery.isRedelivered ? delivery.ack() : delivery.giveBack())
    const startedAt = performance.now()
    const collected = await collect(bus, queue, { onDelivery })
    await collected.reach(2)
    assert.ok(performance.now() - startedAt < SOON_MS, 'it comes again at once')
    await collected.stop()
    const [first, second] = collected.deliveries
    assert.deepEqual([first?.isRedelivered, second?.isRedelivered], [false, true])
    assert.equal(first?.id, second?.id)
    assert.deepEqual(bodies(collected.deliveries), ['once more', 'once more'])
    assert.deepEqual(await drain(bus, queue, 0), [])
  },

  async 'however often a message is given back, it is not lost'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await publishAll(scene, ['stubborn'])
    let deliveries = 0
    const onDelivery = (delivery: Delivery) => (++deliveries < 60 ? delivery.giveBack() : delivery.ack())
    const collected = await collect(bus, queue, { onDelivery })
    await collected.reach(60)
    await collected.stop()
    assert.deepEqual(await drain(bus, queue, 0), [])
  },

  async 'a consumer never has more than its prefetch, and gets the next for each that it settles'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await publishAll(scene, numbers(10))
    const collected = await collect(bus, queue, { prefetch: 3, onDelivery: () => {} })
    await collected.reach(3)
    await settle()
    assert.equal(collected.deliveries.length, 3)
    collected.deliveries[1]?.ack()
    await collected.reach(4)
    await settle()
    assert.equal(collected.deliveries.length, 4)
    for (let settled = 0; settled < 10; settled++) {
      await collected.reach(settled + 1)
      collected.deliveries[settled]?.ack()
    }
    await collected.stop()
    assertSame(bodies(collected.deliveries), numbers(10))
  },

  async 'deliveries may be settled in any order'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await publishAll(scene, numbers(5))
    const collected = await collect(bus, queue, { onDelivery: () => {} })
    await collected.reach(5)
    for (const index of [3, 0, 4]) collected.deliveries[index]?.ack()
    for (const index of [2, 1]) collected.deliveries[index]?.giveBack()
    await collected.reach(7)
    for (const index of [5, 6]) collected.deliveries[index]?.ack()
    await collected.stop()
    assertSame(bodies(collected.deliveries.slice(5)), ['2', '3'])
    assert.deepEqual(await drain(bus, queue, 0), [])
  },

  async 'only the first settlement counts'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await publishAll(scene, ['1'])
    const onDelivery = (delivery: Delivery) => {
      delivery.ack()
      delivery.ack()
      delivery.giveBack()
    }
    const collected = await collect(bus, queue, { onDelivery })
    await collected.reach(1)
    await settle()
    await collected.stop()
    assert.equal(collected.deliveries.length, 1)
  },

  async 'the consumers of a queue share it: each event goes to one of them'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    const consumers = [await collect(bus, queue, { prefetch: 5 }), await collect(bus, queue, { prefetch: 5 })]
    await publishAll(scene, numbers(100))
    const all = () => consumers.flatMap(({ deliveries }) => deliveries)
    await until('all have come', () => all().length >= 100)
    for (const consumer of consumers) await consumer.stop()
    assertSame(bodies(all()), numbers(100))
    for (const { deliveries } of consumers) assert.ok(deliveries.length > 0, 'each has its share')
  },

  async 'what a handler fails at is given back'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await publishAll(scene, numbers(2))
    let [failures, successes] = [0, 0]
    const consumer = await bus.consume(queue, async delivery => {
      if (delivery.isRedelivered) {
        successes++
        return delivery.ack()
      }
      failures++
      throw new Error('a bug of the handler')
    })
    await until('both have come again', () => successes === 2)
    await consumer.stop()
    assert.equal(failures, 2)
    assert.deepEqual(await drain(bus, queue, 0), [])
  },

  async 'a consumer that stops takes no more, and waits for what it has'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await publishAll(scene, numbers(5))
    const collected = await collect(bus, queue, { prefetch: 2, onDelivery: () => {} })
    await collected.reach(2)
    let isStopped = false
    const stopped = collected.stop().then(() => {
      isStopped = true
    })
    collected.deliveries[0]?.ack()
    await settle()
    assert.equal(isStopped, false)
    collected.deliveries[1]?.giveBack()
    await stopped
    await publishAll(scene, ['6'])
    await settle()
    assert.equal(collected.deliveries.length, 2)
    assertSame(await drain(bus, queue, 5), ['2', '3', '4', '5', '6'])
  },

  async 'a consumer that has nothing to do stops soon, also twice'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    const collected = await collect(bus, queue)
    const startedAt = performance.now()
    await collected.stop()
    await collected.stop()
    assert.ok(performance.now() - startedAt < SOON_MS)
  },

  async 'a queue that is not there cannot be consumed'({ bus, queue }) {
    await assertRefused(
      bus.consume(queue, () => {}),
      'no_queue',
    )
  },

  async 'a prefetch that makes no sense is refused'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    for (const prefetch of [0, -1, 1.5, Number.NaN, 70_000]) {
      await assertRefused(
        bus.consume(queue, () => {}, { prefetch }),
        'invalid_option',
      )
    }
  },
}
