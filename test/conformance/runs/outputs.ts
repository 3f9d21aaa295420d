import assert from 'node:assert/strict'
import { assertFields, type StoreBehaviours, settle, start } from '../harness.js'
import { get, kill, runOf, succeed, take } from './harness.js'

export const OUTPUTS: StoreBehaviours = {
  async 'succeeded items are listed until they have been written out'(store) {
    await runOf(store, 5, { hasOutput: true })
    await runOf(store, 1, { id: 'other' })
    await settle(store, await start(store), { type: 'succeeded', result: '1' })
    const [a, b, c, d] = await take(store, 6).then(items => items.filter(({ key }) => key === 'r'))
    assert.ok(a !== undefined && b !== undefined && c !== undefined && d !== undefined)
    await succeed(store, a)
    // With a verdict it takes another path to the same end.
    await settle(store, b, { type: 'succeeded', result: '2' }, { policy: 'p', random: 0.5 })
    await kill(store, c)
    await settle(store, d, { type: 'skipped', reason: 'filtered' })
    assert.deepEqual(
      [...(await store.runs.outputs('r', 10))].sort((x, y) => (x.id < y.id ? -1 : 1)),
      [
        { id: a.id, result: '"ok"' },
        { id: b.id, result: '2' },
      ],
    )
    assert.equal((await store.runs.outputs('r', 1)).length, 1)
    await store.runs.written('r', [a.id], 5)
    assertFields(await get(store), { outputBytes: 5 })
    assert.deepEqual(await store.runs.outputs('r', 10), [{ id: b.id, result: '2' }])
    await store.runs.written('r', [b.id, 'unknown'], 7)
    assert.deepEqual(await store.runs.outputs('r', 10), [])
    assert.deepEqual(await store.runs.outputs('other', 10), [])
    assertFields(await get(store), { outputBytes: 7 })
  },
}
