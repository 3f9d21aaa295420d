import assert from 'node:assert/strict'
import {
  assertRefused,
  type BusBehaviours,
  collect,
  declared,
  drain,
  event,
  numbers,
  publishAll,
  putAll,
  settle,
} from './harness.js'

export const TOPOLOGY: BusBehaviours = {
  async 'declaring twice changes nothing'(scene) {
    await declared(scene)
    await publishAll(scene, numbers(2))
    await declared(scene)
    assert.deepEqual(await drain(scene.bus, scene.queue, 2), numbers(2))
  },

  async 'many may declare at once, each a part'(scene) {
    const { bus, queue, type } = scene
    const queues = numbers(8).map(number => `${queue}.${number}`)
    await Promise.all(queues.map((name, index) => bus.declare({ [name]: `${type}.${index % 4}` })))
    for (let index = 0; index < 4; index++) await bus.publish(event(`${type}.${index}`, `${index}`))
    for (const [index, name] of queues.entries()) assert.deepEqual(await drain(bus, name, 1), [`${index % 4}`])
  },

  async 'what is confirmed while its queue is being declared is not lost'(scene) {
    const { bus, queue, type } = scene
    const confirmed: string[] = []
    let isDeclared = false
    const publish = async () => {
      while (!isDeclared) {
        const body = crypto.randomUUID()
        const isKept = await bus.publish(event(type, body)).then(
          () => true,
          () => false,
        )
        if (isKept) confirmed.push(body)
        await settle(1)
      }
    }
    const publishing = Array.from({ length: 10 }, publish)
    await declared(scene)
    await settle(20)
    isDeclared = true
    await Promise.all(publishing)
    const arrived = await drain(bus, queue, confirmed.length)
    assert.deepEqual(
      confirmed.filter(body => !arrived.includes(body)),
      [],
    )
  },

  async 'what was declared is discovered, unless the broker does not tell'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const found = await bus.discover()
    if (found === undefined) return
    assert.deepEqual(
      found.filter(({ name }) => name.startsWith(queue)).sort((a, b) => (a.name < b.name ? -1 : 1)),
      [
        { name: queue, type },
        { name: `${queue}.failed`, type: undefined },
      ],
    )
  },

  async 'the status says what is there and how much waits in it'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    await publishAll(scene, numbers(3))
    await putAll(scene, `${queue}.failed`, numbers(2))
    const missing = `${queue}.missing`
    assert.deepEqual(await bus.status({ [queue]: type, [missing]: type }), [
      { name: queue, type, isFailedQueue: false, messages: 3 },
      { name: `${queue}.failed`, type, isFailedQueue: true, messages: 2 },
      { name: missing, type, isFailedQueue: false, messages: undefined },
      { name: `${missing}.failed`, type, isFailedQueue: true, messages: undefined },
    ])
  },

  async 'what was declared and nothing else has changed has no error in it'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const errors = (await bus.examine({ [queue]: type })).filter(({ severity }) => severity === 'error')
    assert.deepEqual(errors, [])
  },

  async 'an examination finds what is missing'({ bus, queue, type }) {
    const findings = await bus.examine({ [queue]: type })
    const missing = findings.filter(({ code, severity }) => code === 'missing' && severity === 'error')
    assert.deepEqual(
      missing.map(({ subject }) => subject),
      [queue, `${queue}.failed`],
    )
  },

  async 'an examination warns of messages that nobody consumes'(scene) {
    const { bus, queue, type } = scene
    const warnings = async () =>
      (await bus.examine({ [queue]: type })).filter(({ code }) => code === 'no_consumer').map(({ message }) => message)
    await declared(scene)
    assert.deepEqual(await warnings(), [])
    await publishAll(scene, numbers(3))
    const [warning, ...others] = await warnings()
    assert.match(warning ?? '', /^3 messages wait in /)
    assert.deepEqual(others, [])
    const collected = await collect(bus, queue, { prefetch: 1, onDelivery: () => {} })
    await collected.reach(1)
    assert.deepEqual(await warnings(), [])
    for (const count of [1, 2, 3]) {
      await collected.reach(count)
      collected.deliveries[count - 1]?.ack()
    }
    await collected.stop()
  },

  async 'names that no broker takes are refused, and failed queues by themselves'({ bus, queue, type }) {
    for (const wrong of ['', 'two words', 'a.*', '>', `${queue}.failed`]) {
      await assertRefused(bus.declare({ [wrong]: type }), 'invalid_option')
    }
    await assertRefused(bus.declare({ [queue]: 'json.*' }), 'invalid_option')
  },

  async 'a closed bus refuses everything, and may be closed again'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    await bus.close()
    await bus.close()
    await assertRefused(bus.publish(event(type)), 'bus_closed')
    await assertRefused(bus.put(`${queue}.failed`, event(type)), 'bus_closed')
    await assertRefused(
      bus.consume(queue, () => {}),
      'bus_closed',
    )
    await assertRefused(bus.declare({ [queue]: type }), 'bus_closed')
    await assertRefused(bus.status({ [queue]: type }), 'bus_closed')
  },
}
