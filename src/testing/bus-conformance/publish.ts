import assert from 'node:assert/strict'
import {
  assertRefused,
  assertSame,
  type BusBehaviours,
  bodies,
  collect,
  declared,
  drain,
  event,
  numbers,
  publishAll,
} from './harness.js'

export const PUBLISH: BusBehaviours = {
  async 'an event reaches the queue that takes its type, as it was published'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const headers = { trace: 'a-1', 'Mixed-Case_9': 'é 漢 😀 "quoted": =;', empty: '' }
    const published = event(type, '{ "b" : 1, "a":1 }', { headers })
    const collected = await collect(bus, queue)
    await bus.publish(published)
    await collected.reach(1)
    await collected.stop()
    const [delivery] = collected.deliveries
    assert.equal(delivery?.id, published.id)
    assert.equal(delivery?.type, type)
    assert.deepEqual({ ...delivery?.headers }, headers)
    assert.equal(delivery?.isRedelivered, false)
    assert.deepEqual(bodies(collected.deliveries), ['{ "b" : 1, "a":1 }'])
  },

  async 'an id of 255 bytes is kept whole'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const ids = ['x'.repeat(255), `order: 42 / ä 漢 😀 ' " \\ %`, '漢'.repeat(85)]
    for (const id of ids) await bus.publish(event(type, '', { id }))
    const collected = await collect(bus, queue)
    await collected.reach(ids.length)
    await collected.stop()
    assert.deepEqual(
      collected.deliveries.map(({ id }) => id),
      ids,
    )
  },

  async 'a body comes back to the byte, JSON or not'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const sent = [
      new Uint8Array(0),
      Uint8Array.from({ length: 256 }, (_, byte) => byte),
      new Uint8Array(200_000).fill(7),
    ]
    for (const body of sent) await bus.publish(event(type, body))
    const collected = await collect(bus, queue)
    await collected.reach(sent.length)
    await collected.stop()
    assert.deepEqual(
      collected.deliveries.map(({ body }) => Buffer.from(body).toString('base64')),
      sent.map(body => Buffer.from(body).toString('base64')),
    )
  },

  async 'an event waits for its first consumer'(scene) {
    await declared(scene)
    await publishAll(scene, numbers(20))
    assert.deepEqual(await drain(scene.bus, scene.queue, 20), numbers(20))
  },

  async 'each queue that takes the type gets a copy'(scene) {
    const { bus, queue, type } = scene
    await bus.declare({ [queue]: type, [`${queue}.second`]: type })
    await publishAll(scene, numbers(3))
    assert.deepEqual(await drain(bus, queue, 3), numbers(3))
    assert.deepEqual(await drain(bus, `${queue}.second`, 3), numbers(3))
  },

  async 'an event that no queue takes is a failed publish'({ bus, type }) {
    await assertRefused(bus.publish(event(type)), 'no_queue')
    await bus.declare({ [`${type}-queue`]: `${type}.other` })
    await assertRefused(bus.publish(event(type)), 'no_queue')
  },

  async 'among many publishes at once, the one that no queue takes fails, and no other'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const types = numbers(50).map(number => (number === '25' ? `${type}.other` : type))
    const outcomes = await Promise.allSettled(types.map((type, index) => bus.publish(event(type, `${index + 1}`))))
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      types.map(each => (each === type ? 'fulfilled' : 'rejected')),
    )
    assertSame(
      await drain(bus, queue, 49),
      numbers(50).filter(number => number !== '25'),
    )
  },

  async 'an event that is published again under the same id is delivered again'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const again = event(type, 'again')
    await bus.publish(again)
    await bus.publish(again)
    assert.deepEqual(await drain(bus, queue, 2), ['again', 'again'])
  },

  async 'two thousand publishes at once are all confirmed and all delivered'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const collected = await collect(bus, queue)
    await Promise.all(numbers(2000).map(number => bus.publish(event(type, number))))
    await collected.reach(2000)
    await collected.stop()
    assertSame(bodies(collected.deliveries), numbers(2000))
  },

  async 'a message that is too large is refused, and the others go on'(scene) {
    const { bus, queue, type, maxBytes } = scene
    if (maxBytes === undefined) return
    await declared(scene)
    const small = numbers(20).map(number => bus.publish(event(type, number)))
    await assertRefused(bus.publish(event(type, new Uint8Array(maxBytes + 1))), 'message_too_large')
    await assertRefused(bus.put(`${queue}.failed`, event(type, new Uint8Array(maxBytes + 1))), 'message_too_large')
    await bus.publish(event(type, 'after'))
    const unconfirmed = (await Promise.allSettled(small)).filter(({ status }) => status === 'rejected')
    const arrived = await drain(bus, queue, 21 - unconfirmed.length)
    assert.ok(arrived.includes('after'))
  },

  async 'what no broker could carry is refused before it is sent'({ bus, type }) {
    for (const wrong of ['', 'two words', 'a..b', '.a', 'a.', 'a.*', 'a.>', 'a.#', 'ä', 'x'.repeat(300)]) {
      await assertRefused(bus.publish(event(wrong)), 'invalid_option')
    }
    await assertRefused(bus.publish(event(type, '', { id: '' })), 'invalid_option')
    for (const id of ['two\nlines', ' a', '\ud800', '漢'.repeat(86)]) {
      await assertRefused(bus.publish(event(type, '', { id })), 'invalid_option')
    }
    await assertRefused(bus.publish(event(type, '', { headers: { 'a:b': '1' } })), 'invalid_option')
    await assertRefused(bus.publish(event(type, '', { headers: { 'Nats-Rollup': 'all' } })), 'invalid_option')
    await assertRefused(bus.publish(event(type, '', { headers: { a: 'two\r\nlines' } })), 'invalid_option')
  },
}
