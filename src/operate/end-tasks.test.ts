import { describe, expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { encrypted } from '../codec/index.js'
import { OptionError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { type Death, declareTask, defineTask, TaskNotFoundError, TaskQueue, Worker } from '../task/index.js'
import { fakeClock } from '../testing/index.js'
import { completeTasks, type DeletionSelection, deleteTasks, explainTask, failTasks, verify } from './index.js'
import { planDeletion, planEnd } from './internal.js'

const ADA = { who: 'ada', why: 'done by phone' }

async function bench(ids: readonly string[] = []) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '1' })))
  return { clock, store, queue: new TaskQueue(store, { clock }) }
}

/** Adds a task that a worker has. */
async function run(store: MemoryStore, id: string): Promise<void> {
  await store.enqueue([{ id, kind: 'run', payload: '1' }])
  await store.claim({ worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['run'] }], limit: 1, isIdle: true })
}

async function audited(store: MemoryStore) {
  const { items } = await store.audit.page({ limit: 1000 })
  return items.map(item => JSON.parse(item) as { event_type: string; count: number; ids: string[] })
}

describe('completeTasks', () => {
  it('gives the result to whoever waits for it, and says which tasks it refused and why', async () => {
    const { clock, store, queue } = await bench(['a'])
    await run(store, 'running')
    const result = queue.result('a')
    const done = await completeTasks(store, ['a', 'a', 'running', 'none'], { ...ADA, result: { paid: true } })
    expect(await result).toEqual({ paid: true })
    expect(done.ids).toEqual(['a'])
    expect(done.refused.map(({ id, code }) => [id, code])).toEqual([
      ['running', 'running'],
      ['none', 'not_found'],
    ])
    expect(done.refused[0]?.text).toBe(
      "'running' is running, and its handler may yet do the work. Cancel it first, and try again when it has ended.",
    )
    const again = await completeTasks(store, ['a'], ADA)
    expect(again.refused.map(({ text }) => text)).toEqual(["'a' has ended already: it has succeeded."])
    expect((await explainTask(store, 'a'))?.history[0]).toMatchObject({ outcome: 'completed', worker: 'ada' })
    await clock.advance(0)
    expect((await verify(store)).problems).toEqual([])
  })

  it('refuses a result that JSON cannot hold, or that is too long', async () => {
    const { store } = await bench(['a'])
    await expect(completeTasks(store, ['a'], { ...ADA, result: () => 1 })).rejects.toThrow(OptionError)
    await expect(completeTasks(store, ['a'], { ...ADA, result: 'x'.repeat(70_000_000) })).rejects.toThrow(OptionError)
    expect(await store.get('a')).toMatchObject({ status: 'waiting' })
  })

  it('encodes the result of a kind that has a codec, and refuses it without one', async () => {
    const task = defineTask('secret', {
      codec: encrypted({ keys: { k1: Buffer.alloc(32, 7).toString('base64') }, current: 'k1' }),
      handler: (_: { card: string }) => ({ paid: false }),
    })
    const { store, queue } = await bench(['plain'])
    await queue.enqueue(task, { card: '42' }, { id: 'a' })
    const refused = await completeTasks(store, ['a', 'plain'], { ...ADA, result: { paid: true } })
    expect([refused.ids, refused.refused.map(({ code }) => code)]).toEqual([['plain'], ['no_codec']])
    expect((await completeTasks(store, ['a'], { ...ADA, result: { paid: true }, tasks: [task] })).ids).toEqual(['a'])
    expect((await store.get('a'))?.result).not.toContain('paid')
    expect(await queue.result('a', { task })).toEqual({ paid: true })
  })
})

describe('failTasks', () => {
  it('makes dead letters, and what is to follow a death follows, though no worker is there', async () => {
    const told: Death[] = []
    const tell = defineTask(declareTask<Death>('tell'), { handler: death => void told.push(death) })
    const charge = defineTask('charge', { onDead: tell, handler: () => {} })
    const { clock, store, queue } = await bench()
    const declaring = new Worker(store, { tasks: [charge], clock })
    await declaring.start()
    await declaring.stop()
    await queue.enqueue(charge, undefined, { id: 'a', key: 'acme' })
    expect(await failTasks(store, ['a', 'none'], ADA)).toMatchObject({ ids: ['a'], refused: [{ code: 'not_found' }] })
    const worker = new Worker(store, { tasks: [tell], clock })
    await worker.start()
    await clock.advance('1s')
    expect(told).toMatchObject([
      { id: 'a', kind: 'charge', key: 'acme', reason: 'failed_by_hand', errorMessage: 'done by phone', attempts: 0 },
    ])
    expect(await explainTask(store, 'a')).toMatchObject({
      status: 'dead',
      reason: 'failed_by_hand',
      errorMessage: 'done by phone',
      retryCount: 0,
    })
    expect((await failTasks(store, ['a'], ADA)).refused.map(({ text }) => text)).toEqual([
      "'a' has ended already: it is dead.",
    ])
    await expect(queue.result('a')).rejects.toThrow(/dead \(failed_by_hand\)/)
    await worker.stop()
  })
})

describe('deleteTasks', () => {
  it('deletes by id, and says why it leaves some alone', async () => {
    const { store, queue } = await bench(['a', 'b'])
    await run(store, 'running')
    await store.batches.fill('news', { position: 0, tasks: [{ kind: 'k', payload: '1' }], isEnd: true })
    const member = 'batch:news:000000000000'
    const waiting = queue.result('b')
    const ids = ['a', 'b', 'running', member, 'none']
    expect((await planEnd(store, 'delete', ids)).ids).toEqual(['a', 'b'])
    const { deleted, refused } = await deleteTasks(store, { ids }, ADA)
    expect(deleted).toBe(2)
    expect(refused.map(({ code }) => code)).toEqual(['running', 'member_of_batch', 'not_found'])
    await expect(waiting).rejects.toThrow(TaskNotFoundError)
    expect((await audited(store)).at(-1)).toMatchObject({ event_type: 'tasks_deleted', ids: ['a', 'b'] })
    expect(await queue.enqueue(declareTask('k'), 2, { id: 'a' })).toMatchObject({ isNew: true })
  })

  it('deletes what a filter finds, a hundred at a time, so that every id is on record, and can be stopped', async () => {
    const { store } = await bench(Array.from({ length: 250 }, (_, n) => `t${n}`))
    const stop = new AbortController()
    const first = await deleteTasks(
      store,
      { all: true },
      { ...ADA, signal: stop.signal, onProgress: () => stop.abort() },
    )
    expect(first).toEqual({ deleted: 100, refused: [], isStopped: true })
    await deadLetters(store, [{ id: 'dead', kind: 'other' }])
    expect(await planDeletion(store, { filter: { kind: 'k' } })).toEqual({
      count: 150,
      waiting: 150,
      running: 0,
      items: 0,
    })
    expect(await deleteTasks(store, { filter: { kind: 'k' } }, ADA)).toMatchObject({ deleted: 150, isStopped: false })
    const ids = (await audited(store)).flatMap(record => (record.event_type === 'tasks_deleted' ? record.ids : []))
    expect([ids.length, new Set(ids).size]).toEqual([250, 250])
    expect(await store.count({})).toMatchObject({ waiting: 0, dead: 1 })
  })

  it('leaves tasks alone that have changed since the time given', async () => {
    const { clock, store } = await bench(['old'])
    const until = await store.now()
    await clock.advance('1s')
    await store.enqueue([{ id: 'new', kind: 'k', payload: '1' }])
    expect(await deleteTasks(store, { filter: { kind: 'k' } }, { ...ADA, until })).toMatchObject({ deleted: 1 })
    expect(await store.get('new')).toMatchObject({ status: 'waiting' })
  })

  it('takes no empty filter for everything', async () => {
    const { store } = await bench(['a'])
    const mistakes = [{}, { filter: {} }, { filter: { kind: undefined } }, { all: false }, { ids: ['a'], all: true }]
    for (const selection of mistakes)
      await expect(deleteTasks(store, selection as DeletionSelection, ADA)).rejects.toThrow(OptionError)
    expect(await store.get('a')).toMatchObject({ status: 'waiting' })
  })
})
