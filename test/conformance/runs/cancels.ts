import assert from 'node:assert/strict'
import { assertFields, callsDuring, claim, type StoreBehaviours, settle } from '../harness.js'
import { ANN, audit, chunk, counts, end, endings, get, KIND, open, runOf, take } from './harness.js'

export const CANCELS: StoreBehaviours = {
  async 'a run is cancelled in chunks: what waits ends, what runs is asked to'(store) {
    await runOf(store, 7, { onEnd: { kind: 'report', payload: 'null' } })
    const [running, retrying] = await take(store, 2)
    assert.ok(running !== undefined && retrying !== undefined)
    await settle(store, retrying, { type: 'retry', delayMs: 60_000, isBackoff: true })
    assert.deepEqual(await store.runs.cancel('r', 4, ANN), { cancelled: 4, left: 2 })
    assertFields(await get(store), { status: 'cancelled', endedAt: undefined })
    assert.deepEqual((await claim(store, { kinds: [KIND] })).tasks, [])
    await assert.rejects(store.runs.take('r', chunk(1, { position: 7 })), { name: 'RunEndedError' })
    assert.deepEqual(await store.runs.cancel('r', 4, ANN), { cancelled: 2, left: 0 })
    assert.deepEqual(await store.runs.cancel('r', 4, ANN), { cancelled: 0, left: 0 })
    assert.deepEqual(await store.cancelled('w1'), [running.token])
    assertFields(await store.runs.check('r'), { status: 'cancelled', endedAt: undefined })
    await settle(store, running, { type: 'advanced', to: 'call', value: '1', keep: true })
    const run = await store.runs.check('r')
    assertFields(run, { status: 'cancelled', endedAt: await store.now(), counts: counts({ cancelled: 7 }) })
    assert.equal((await endings(store)).length, 1)
    assert.deepEqual(
      (await audit(store)).map(({ event_type, who }) => [event_type, who]),
      [['run_cancelled', 'ann']],
    )
  },

  async 'a check goes on with the cancellation of a run, up to 1 000 items at a time'(store) {
    await runOf(store, 1003)
    assert.deepEqual(await store.runs.cancel('r', 1, ANN), { cancelled: 1, left: 1002 })
    assertFields(await store.runs.check('r'), { endedAt: undefined, counts: counts({ waiting: 2, cancelled: 1001 }) })
    const run = await store.runs.check('r')
    assertFields(run, { endedAt: await store.now(), counts: counts({ cancelled: 1003 }) })
  },

  async 'a check that cancels items calls whoever watches, since running ones are to be aborted'(store) {
    await runOf(store, 3)
    const [running] = await take(store, 1)
    await store.runs.cancel('r', 1, ANN)
    const calls = await callsDuring(store, () => store.runs.check('r'))
    assert.ok(calls > 0)
    assert.deepEqual(await store.cancelled('w1'), [running?.token])
  },

  async 'a run without running items ends as it is cancelled: nobody may be left to check it'(store) {
    await runOf(store, 3, { onEnd: { kind: 'report', payload: 'null' } })
    assert.deepEqual(await store.runs.cancel('r', 2, ANN), { cancelled: 2, left: 1 })
    assertFields(await get(store), { status: 'cancelled', endedAt: undefined })
    assert.deepEqual(await store.runs.cancel('r', 2, ANN), { cancelled: 1, left: 0 })
    assertFields(await get(store), { status: 'cancelled', endedAt: await store.now(), endings: 1 })
    assert.deepEqual(await store.runs.cancel('r', 2, ANN), { cancelled: 0, left: 0 })
    assertFields(await store.runs.check('r'), { endings: 1 })
    assert.deepEqual(
      (await endings(store)).map(ending => (ending as unknown[])[0]),
      ['r:end:1'],
    )
  },

  async 'a run ends as its last waiting item is cancelled by its id'(store) {
    await runOf(store, 3, { onEnd: { kind: 'report', payload: 'null' } })
    await end(store, 's')
    const [first, last] = (await store.runs.items('r', { limit: 10 }, 'waiting')).items.map(({ id }) => id)
    assert.ok(first !== undefined && last !== undefined)
    assert.deepEqual(await store.cancel([first]), [first])
    assertFields(await get(store), { status: 'running', endedAt: undefined })
    assert.deepEqual(await store.cancel([last, 'r:end:9'], ANN), [last])
    const ended = { status: 'completed' as const, counts: counts({ succeeded: 1, cancelled: 2 }) }
    assertFields(await get(store), { ...ended, endedAt: await store.now() })
    assert.deepEqual(await endings(store), [['r:end:1', { run: 'r', ...ended, payload: null }]])
    assert.deepEqual(
      (await audit(store)).map(({ event_type, who }) => [event_type, who]),
      [['tasks_cancelled', 'ann']],
    )
  },

  async 'a cancelled item does not end a run that has others, or whose source has more'(store) {
    await runOf(store, 2)
    await take(store, 1)
    const [waiting] = (await store.runs.items('r', { limit: 10 }, 'waiting')).items
    assert.deepEqual(await store.cancel([waiting?.id ?? '']), [waiting?.id])
    assertFields(await get(store), { status: 'running', endedAt: undefined })
    await open(store, { id: 's' })
    await store.runs.take('s', chunk(1, { isEnd: false }))
    const [only] = (await store.runs.items('s', { limit: 10 })).items
    assert.deepEqual(await store.cancel([only?.id ?? '']), [only?.id])
    assertFields(await get(store, 's'), { status: 'running', endedAt: undefined })
  },

  async 'a run whose source was not read to its end can be cancelled'(store) {
    await open(store)
    await store.runs.take('r', chunk(1, { isEnd: false }))
    await store.runs.cancel('r', 10, ANN)
    assertFields(await store.runs.check('r'), { status: 'cancelled', endings: 1 })
    await assert.rejects(store.runs.read('r', 'reader', 10), { name: 'RunEndedError' })
  },

  async 'a run that has ended by itself cannot be cancelled'(store) {
    await runOf(store, 0)
    await store.runs.check('r')
    await assert.rejects(store.runs.cancel('r', 1, ANN), { name: 'RunEndedError' })
  },
}
