import assert from 'node:assert/strict'
import { assertFields, type StoreBehaviours } from '../harness.js'
import { chunk, end, get, open, runOf } from './harness.js'

export const READERS: StoreBehaviours = {
  async 'items have the traceparent of the chunk that they came with'(store) {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    await open(store)
    await store.runs.take('r', chunk(1, { traceparent, isEnd: false }))
    await store.runs.take('r', chunk(1, { position: 1 }))
    assert.deepEqual(
      (await store.runs.items('r', { limit: 10 })).items.map(item => item.traceparent),
      [traceparent, undefined],
    )
  },

  async 'one process reads: another one is refused until the lease has expired, and then takes over'(store, advance) {
    await open(store, { reader: { name: 'one', leaseMs: 1000 } })
    assertFields(await get(store), {
      status: 'running',
      reader: { name: 'one', until: (await store.now()) + 1000, leaseMs: 1000 },
    })
    await assert.rejects(store.runs.read('r', 'two', 1000), { name: 'RunBusyError' })
    await assert.rejects(store.runs.take('r', chunk(1, { reader: 'two' })), { name: 'RunBusyError' })
    await advance(999)
    assertFields(await store.runs.read('r', 'one', 1000), { status: 'running' })
    await advance(1000)
    assertFields(await get(store), { status: 'interrupted' })
    assertFields(await store.runs.read('r', 'two', 1000), { status: 'running' })
    await assert.rejects(store.runs.take('r', chunk(1, { reader: 'one' })), { name: 'RunBusyError' })
    assert.equal((await store.count({})).waiting, 0)
  },

  async 'the lease of a reader is whole milliseconds, rounded up'(store, advance) {
    await open(store, { reader: { name: 'one', leaseMs: 0.5 } })
    await assert.rejects(store.runs.read('r', 'two', 1), { name: 'RunBusyError' })
    await advance(1)
    const { reader } = await store.runs.read('r', 'two', 10.2)
    assert.deepEqual(reader, { name: 'two', until: (await store.now()) + 11, leaseMs: 11 })
  },

  async 'a chunk from the wrong position is refused: another process has read on'(store, advance) {
    await open(store)
    await store.runs.take('r', chunk(3, { isEnd: false, leaseMs: 10 }))
    await advance(10)
    await assert.rejects(store.runs.take('r', chunk(2, { reader: 'two' })), { name: 'RunBusyError' })
    assertFields(await get(store), { position: 3 })
    assert.equal((await store.count({})).waiting, 3)
  },

  async 'a source that throws interrupts the run, says why, and can be read on'(store) {
    await open(store)
    await store.runs.take('r', chunk(2, { isEnd: false }))
    await store.runs.change('r', { sourceError: 'Error: no such bucket', reader: 'reader' })
    assertFields(await get(store), { status: 'interrupted', sourceError: 'Error: no such bucket', reader: undefined })
    await end(store, 'ss')
    assertFields(await store.runs.check('r'), { status: 'interrupted', position: 2 })
    const read = await store.runs.read('r', 'two', 1000)
    assertFields(read, { status: 'running', sourceError: undefined, position: 2 })
    await store.runs.take('r', chunk(0, { reader: 'two', position: 2 }))
    assertFields(await store.runs.check('r'), { status: 'completed' })
  },

  async 'a reader that lost its lease cannot interrupt the one after it'(store, advance) {
    await open(store, { reader: { name: 'one', leaseMs: 10 } })
    await advance(10)
    await store.runs.read('r', 'two', 1000)
    await store.runs.change('r', { sourceError: 'Error: late', reader: 'one' })
    assertFields(await get(store), { status: 'running', sourceError: undefined })
  },

  async 'a source that was read to its end cannot be read again'(store) {
    await runOf(store, 1)
    await assert.rejects(store.runs.read('r', 'two', 1000), { name: 'RunEndedError' })
    await assert.rejects(store.runs.take('r', chunk(1, { position: 1, reader: 'two' })), { name: 'RunEndedError' })
  },
}
