import assert from 'node:assert/strict'
import { assertFields, claim, type StoreBehaviours, settle } from '../harness.js'
import { chunk, counts, end, endings, get, kill, open, runOf, succeed, take } from './harness.js'

export const ENDINGS: StoreBehaviours = {
  async 'a run ends when its source has and no item is left, and only then'(store, advance) {
    await open(store)
    await store.runs.take('r', chunk(2, { isEnd: false }))
    await end(store, 'ss')
    assertFields(await store.runs.check('r'), { status: 'running', endedAt: undefined })
    await store.runs.take('r', chunk(1, { position: 2 }))
    assertFields(await store.runs.check('r'), { status: 'running' })
    const [last] = await take(store, 1)
    assertFields(await store.runs.check('r'), { status: 'running' })
    await advance(5)
    if (last !== undefined) await succeed(store, last)
    assertFields(await get(store), { status: 'running' })
    assertFields(await store.runs.check('r'), { status: 'completed', endings: 1, endedAt: await store.now() })
    await advance(5)
    assertFields(await store.runs.check('r'), { endings: 1, endedAt: (await store.now()) - 5 })
  },

  async 'the share of items that did not die decides how it ended'(store) {
    for (const [id, letters, status] of [
      ['a', 'sssssssssssssssssskd', 'completed'],
      ['b', 'ssssssssssssssssssdd', 'partial_success'],
      ['c', 'skddd', 'failed'],
      ['d', 'skdd', 'partial_success'],
      ['e', '', 'completed'],
    ] as const) {
      await runOf(store, letters.length, { id })
      if (letters !== '') await end(store, letters)
      assertFields(await store.runs.check(id), { id, status })
    }
  },

  async 'the last task of a run is enqueued once, with the end, and tells about it'(store) {
    await runOf(store, 2, { onEnd: { kind: 'report', category: 'c', key: 'k', payload: '{"to":"ann"}' } })
    await end(store, 'ss')
    assert.deepEqual(await endings(store), [])
    await Promise.all([store.runs.check('r'), store.runs.check('r'), store.runs.check('r')])
    const about = { run: 'r', status: 'completed', counts: counts({ succeeded: 2 }), payload: { to: 'ann' } }
    assert.deepEqual(await endings(store), [['r:end:1', about]])
    const { tasks } = await claim(store, { kinds: ['report'] })
    assertFields(tasks[0], { id: 'r:end:1', category: 'c', key: 'k' })
    assert.equal((await store.runs.items('r', { limit: 10 })).items.length, 2)
  },

  async 'items go from stage to stage, and are counted where they are'(store) {
    await runOf(store, 2)
    const [one, two] = await take(store, 2)
    assert.ok(one !== undefined && two !== undefined)
    await settle(store, one, { type: 'advanced', to: 'call', value: '{"v":1}', keep: false })
    await kill(store, two)
    const { byStage } = await get(store)
    assert.deepEqual(byStage, [
      { stage: 'fetch', counts: counts({ dead: 1 }) },
      { stage: 'call', counts: counts({ waiting: 1 }) },
    ])
    const [item] = await take(store, 1)
    assertFields(item, { category: 'call', value: '{"v":1}', payload: '0' })
    if (item !== undefined) await settle(store, item, { type: 'advanced', to: 'new', value: '2', keep: false })
    assert.deepEqual((await get(store)).byStage[2], { stage: 'new', counts: counts({ waiting: 1 }) })
  },
}
