import assert from 'node:assert/strict'
import {
  assertRefused,
  type BusBehaviours,
  bodies,
  browseAll,
  declared,
  drain,
  event,
  numbers,
  publishAll,
  putAll,
} from './harness.js'

export const FAILED_QUEUES: BusBehaviours = {
  async 'what is put into a failed queue is there, as it was put'(scene) {
    const { bus, queue, type } = scene
    await declared(scene)
    const letter = event(type, 'not JSON', { headers: { why: 'because' } })
    await bus.put(`${queue}.failed`, letter)
    const [found] = await browseAll(bus, `${queue}.failed`)
    assert.equal(found?.id, letter.id)
    assert.equal(found?.type, type)
    assert.deepEqual({ ...found?.headers }, { why: 'because' })
    assert.deepEqual(bodies(found ? [found] : []), ['not JSON'])
  },

  async 'browsing changes nothing: each message once, oldest first, as often as one looks'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await putAll(scene, `${queue}.failed`, numbers(25))
    for (let look = 0; look < 3; look++) {
      assert.deepEqual(bodies(await browseAll(bus, `${queue}.failed`)), numbers(25))
    }
    assert.deepEqual(bodies(await browseAll(bus, `${queue}.failed`, 3)), ['1', '2', '3'])
    assert.deepEqual(await countOf(scene), 25)
  },

  async 'what is removed is gone, and the rest keeps its order'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await putAll(scene, `${queue}.failed`, numbers(6))
    for await (const message of bus.browse(`${queue}.failed`)) {
      if (['1', '4'].includes(bodies([message])[0] ?? '')) await message.remove()
    }
    assert.deepEqual(bodies(await browseAll(bus, `${queue}.failed`)), ['2', '3', '5', '6'])
    for await (const message of bus.browse(`${queue}.failed`, { limit: 3 })) await message.remove()
    assert.deepEqual(bodies(await browseAll(bus, `${queue}.failed`)), ['6'])
    assert.deepEqual(await countOf(scene), 1)
  },

  async 'who stops browsing half-way leaves the rest in its order'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await putAll(scene, `${queue}.failed`, numbers(10))
    for await (const message of bus.browse(`${queue}.failed`)) {
      if (bodies([message])[0] === '3') break
      await message.remove()
    }
    assert.deepEqual(bodies(await browseAll(bus, `${queue}.failed`)), numbers(10).slice(2))
  },

  async 'what comes in while somebody browses is not part of it'(scene) {
    const { bus, queue } = scene
    await declared(scene)
    await putAll(scene, `${queue}.failed`, numbers(3))
    const seen: string[] = []
    for await (const message of bus.browse(`${queue}.failed`)) {
      seen.push(...bodies([message]))
      await putAll(scene, `${queue}.failed`, ['later'])
    }
    assert.deepEqual(seen, numbers(3))
    assert.deepEqual(bodies(await browseAll(bus, `${queue}.failed`)), [...numbers(3), 'later', 'later', 'later'])
  },

  async 'an empty failed queue has nothing to browse'(scene) {
    await declared(scene)
    assert.deepEqual(await browseAll(scene.bus, `${scene.queue}.failed`), [])
  },

  async 'events do not go to failed queues by themselves'(scene) {
    await declared(scene)
    await publishAll(scene, numbers(2))
    assert.deepEqual(await browseAll(scene.bus, `${scene.queue}.failed`), [])
  },

  async 'a message is put into one queue alone'(scene) {
    const { bus, queue, type } = scene
    await bus.declare({ [queue]: type, [`${queue}.second`]: type })
    await bus.put(queue, event(type, 'for one'))
    await publishAll(scene, ['for both'])
    assert.deepEqual(await drain(bus, `${queue}.second`, 1), ['for both'])
    assert.deepEqual(await drain(bus, queue, 2), ['for one', 'for both'])
  },

  async 'a queue that is not there takes nothing, and has nothing to browse'({ bus, queue, type }) {
    await assertRefused(bus.put(`${queue}.failed`, event(type)), 'no_queue')
    await assertRefused(bus.put(queue, event(type)), 'no_queue')
    await assertRefused(browseAll(bus, `${queue}.failed`), 'no_queue')
  },

  async 'only a failed queue can be browsed'(scene) {
    await declared(scene)
    await assertRefused(browseAll(scene.bus, scene.queue), 'invalid_option')
  },
}

async function countOf({ bus, queue, type }: Parameters<typeof declared>[0]): Promise<number | undefined> {
  return (await bus.status({ [queue]: type })).find(({ isFailedQueue }) => isFailedQueue)?.messages
}
