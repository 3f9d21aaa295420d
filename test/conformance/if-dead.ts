import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { NewTask } from '../../src/store/index.js'
import type { ClaimedTask, Outcome, Settlement } from '../../src/store/internal.js'
import { add, assertFields, callsDuring, claim, entry, get, type StoreBehaviours, start } from './harness.js'

const DEAD: Outcome = { type: 'dead', reason: 'final_error' }

/** A settlement that tasks follow, if the task dies. */
function followed(task: ClaimedTask, ifDead: readonly Partial<NewTask>[], outcome = DEAD): Settlement {
  const tasks = ifDead.map(next => ({ kind: 'tell', payload: '{}', ...next }))
  return { id: task.id, token: task.token, outcome, attempt: entry(task), ifDead: tasks }
}

export const IF_DEAD: StoreBehaviours = {
  async 'the tasks that follow a death are enqueued with it, once, however often it is settled'(store) {
    const task = await start(store)
    const end = followed(task, [{ id: 'told', key: 't', payload: '{"a":1}' }, { kind: 'undo' }])
    assert.deepEqual(
      (await store.settle([end])).map(({ result }) => result),
      ['settled'],
    )
    assert.deepEqual(
      (await store.settle([end])).map(({ result }) => result),
      ['stale'],
    )
    assert.equal((await get(store, task.id)).status, 'dead')
    assertFields(await get(store, 'told'), { kind: 'tell', key: 't', payload: '{"a":1}', status: 'waiting' })
    assert.equal((await store.list({ kind: 'tell' }, { limit: 9 })).items.length, 1)
    assert.equal((await store.list({ kind: 'undo' }, { limit: 9 })).items.length, 1)
  },

  async 'no task follows a death that came too late, or another end, beside ends in the same batch that have one'(
    store,
  ) {
    await add(store, { id: 'stale' }, { id: 'done' }, { id: 'dead' })
    const { tasks } = await claim(store)
    const [stale, done, dead] = ['stale', 'done', 'dead'].map(id => tasks.find(task => task.id === id))
    assert.ok(stale && done && dead)
    const answers = await store.settle([
      followed({ ...stale, token: done.token }, [{ id: 'after stale' }]),
      followed(done, [{ id: 'after done' }], { type: 'succeeded' }),
      followed(dead, [{ id: 'after dead' }]),
    ])
    assert.deepEqual(
      answers.map(({ result }) => result),
      ['stale', 'settled', 'settled'],
    )
    const { items } = await store.list({ kind: 'tell' }, { limit: 9 })
    assert.deepEqual(
      items.map(({ id }) => id),
      ['after dead'],
    )
  },

  async 'where the id is taken nothing follows, and the task is dead all the same'(store) {
    await add(store, { id: 'taken', kind: 'l', payload: '"first"' })
    const task = await start(store)
    await store.settle([followed(task, [{ id: 'taken' }])])
    assert.equal((await get(store, task.id)).status, 'dead')
    assertFields(await get(store, 'taken'), { kind: 'l', payload: '"first"' })
  },

  async 'whoever waits for work hears of a task that follows a death'(store) {
    const task = await start(store)
    assert.ok((await callsDuring(store, () => store.settle([followed(task, [{}])]))) > 0)
    assert.equal((await claim(store, { kinds: ['tell'] })).tasks.length, 1)
  },

  async 'a task that could not be stored is refused before anything is settled'(store) {
    const task = await start(store)
    await assert.rejects(store.settle([followed(task, [{ id: '' }])]), OptionError)
    assert.equal((await get(store, task.id)).status, 'running')
  },
}
