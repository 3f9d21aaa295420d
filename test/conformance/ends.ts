import assert from 'node:assert/strict'
import type { Outcome, StoreContract } from '../../src/store/internal.js'
import { addOne, get, type StoreBehaviours, settle, start } from './harness.js'

/** Begins to watch a task. Resolves when the store calls back. */
function watched(store: StoreContract, id: string): Promise<void> {
  return new Promise(resolve => {
    const unwatch = store.watchEnd(id, () => {
      unwatch()
      resolve()
    })
  })
}

const ENDINGS: readonly Outcome[] = [
  { type: 'succeeded', result: '1' },
  { type: 'succeeded', reason: 'JSON cannot hold a bigint' },
  { type: 'skipped', reason: 'nothing to do' },
  { type: 'dead', reason: 'final_error' },
  { type: 'cancelled' },
]

export const ENDS: StoreBehaviours = {
  async 'who waits for a task is called when it has ended, however it ends'(store) {
    for (const outcome of ENDINGS) {
      const task = await start(store)
      const ended = watched(store, task.id)
      await settle(store, task, outcome)
      await ended
      assert.equal((await get(store, task.id)).status, outcome.type)
    }
  },

  async 'who waits for a task is called when it is cancelled before it runs'(store) {
    const id = await addOne(store)
    const ended = watched(store, id)
    await store.cancel([id])
    await ended
  },

  async 'all who wait for a task are called, and who has stopped waiting is not'(store) {
    const [first, second] = [await start(store), await start(store)]
    const called: string[] = []
    const unwatch = store.watchEnd(first.id, () => called.push('stopped'))
    const ended = [watched(store, first.id), watched(store, first.id), watched(store, second.id)]
    unwatch()
    unwatch()
    await settle(store, first, { type: 'succeeded' })
    await settle(store, second, { type: 'succeeded' })
    await Promise.all(ended)
    assert.deepEqual(called, [])
  },

  async 'a success without its result keeps the reason, and so does its history'(store) {
    const task = await start(store)
    const reason = 'JSON cannot hold a bigint'
    await settle(store, task, { type: 'succeeded', reason })
    const { status, result, reason: kept } = await get(store, task.id)
    assert.deepEqual([status, result, kept], ['succeeded', undefined, reason])
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(row => [row.outcome, row.reason]),
      [['succeeded', reason]],
    )
  },
}
