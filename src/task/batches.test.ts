import { expect, it } from 'vitest'
import { FinalError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { fakeClock } from '../testing/index.js'
import {
  type BatchEnd,
  defineTask,
  encrypted,
  type TaskContext,
  type TaskDefinition,
  TaskQueue,
  Worker,
} from './index.js'

const BY = { who: 'ada', why: 'fixed' }

function bench(tasks: readonly TaskDefinition[]) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const ends: BatchEnd[] = []
  const report = defineTask('report', { handler: (end: BatchEnd) => void ends.push(end) })
  const worker = new Worker(store, { tasks: [...tasks, report], clock })
  return { clock, store, ends, report, worker, queue: new TaskQueue(store, { clock }) }
}

const items = (count: number) => Array.from({ length: count }, (_, n) => ({ payload: n }))

it('a task follows once all tasks of a batch have ended, with how they ended', async () => {
  const broken = new Set([3])
  const double = defineTask('double', {
    handler: (n: number) => {
      if (broken.has(n)) throw new FinalError('Odd')
      return 2 * n
    },
  })
  const { clock, store, ends, report, worker, queue } = bench([double])
  const onEnd = { task: report, payload: { to: 'ada' } }
  expect(await queue.enqueueBatch('b', double, items(5), { onEnd })).toEqual({ name: 'b', added: 5, isNew: true })
  await worker.start()
  await clock.advance(1000)
  const counts = { succeeded: 4, skipped: 0, dead: 1, cancelled: 0 }
  const first = { batch: 'b', status: 'partial_success', counts, ending: 1, payload: { to: 'ada' } }
  expect(ends).toEqual([first])
  expect((await queue.get('batch:b:000000000004', { task: double }))?.result).toBe(8)

  broken.clear()
  await queue.redrive('batch:b:000000000003', BY)
  expect((await store.batches.get('b'))?.status).toBe('running')
  await clock.advance(1000)
  const all = { succeeded: 5, skipped: 0, dead: 0, cancelled: 0 }
  expect(ends).toEqual([first, { ...first, status: 'completed', counts: all, ending: 2 }])
  await worker.stop()
})

it('is filled from anything that can be iterated over, a thousand tasks at a time', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { queue, store } = bench([work])
  async function* rows() {
    for (const item of items(2500)) yield item
  }
  expect(await queue.enqueueBatch('b', work, rows())).toEqual({ name: 'b', added: 2500, isNew: true })
  expect((await store.batches.get('b'))?.counts.waiting).toBe(2500)
})

it('goes on where it was when it is called again, and changes nothing once it is complete', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { clock, queue, store, report, ends, worker } = bench([work])
  function* failing() {
    yield* items(1500)
    throw new Error('the connection is gone')
  }
  const options = { onEnd: { task: report } }
  await expect(queue.enqueueBatch('b', work, failing(), options)).rejects.toThrow('the connection is gone')
  expect(await store.batches.get('b')).toMatchObject({ status: 'filling', counts: { waiting: 1000 } })
  await worker.start()
  await clock.advance(1000)
  expect(ends).toEqual([])
  expect(await queue.enqueueBatch('b', work, items(1500), options)).toEqual({ name: 'b', added: 500, isNew: true })
  expect(await queue.enqueueBatch('b', work, items(7), options)).toEqual({ name: 'b', added: 0, isNew: false })
  while (ends.length === 0) await clock.advance(1000)
  expect(ends.map(({ counts }) => counts.succeeded)).toEqual([1500])
  await worker.stop()
})

it('a task adds others to its batch, of any kind, and a repeated attempt adds none twice', async () => {
  const page = defineTask('page', { handler: (_: { page: number; line: number }) => {} })
  const file = defineTask('file', {
    policy: { attempts: 2, backoff: { base: '1s' } },
    handler: async (pages: number, task: TaskContext) => {
      expect(task.batch?.name).toBe('b')
      for (let n = 0; n < pages; n++) await task.batch?.add(page, [{ payload: { page: n, line: 1 } }])
      if (task.attempt === 1) throw new Error('again')
    },
  })
  const { clock, queue, ends, report, worker } = bench([file, page])
  await queue.enqueueBatch('b', file, [{ payload: 2 }, { payload: 3 }], { onEnd: { task: report } })
  await worker.start()
  await clock.advance(10_000)
  expect(ends).toMatchObject([{ status: 'completed', counts: { succeeded: 7 } }])
  expect((await queue.list({ kind: 'page' })).items.map(({ id }) => id).sort()).toEqual([
    'batch:b:000000000000.000001',
    'batch:b:000000000000.000002',
    'batch:b:000000000001.000001',
    'batch:b:000000000001.000002',
    'batch:b:000000000001.000003',
  ])
  await worker.stop()
})

it('an empty batch ends at once', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { clock, queue, ends, report, worker } = bench([work])
  await queue.enqueueBatch('b', work, [], { onEnd: { task: report } })
  await worker.start()
  await clock.advance(0)
  expect(ends).toMatchObject([{ status: 'completed', ending: 1 }])
  await worker.stop()
})

it('two batches follow each other: the task that follows the first enqueues the second', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { clock, store, ends, report, queue } = bench([work])
  const next = defineTask('next', {
    handler: async ({ batch }: BatchEnd) => {
      await queue.enqueueBatch(`${batch}.2`, work, items(2), { onEnd: { task: report } })
    },
  })
  await queue.enqueueBatch('b', work, items(2), { onEnd: { task: next } })
  const worker = new Worker(store, { tasks: [work, next, report], clock })
  await worker.start()
  await clock.advance(1000)
  expect(ends).toMatchObject([{ batch: 'b.2', status: 'completed' }])
  await worker.stop()
})

it('a batch whose last worker died before its check is ended by another', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { clock, store, ends, report, queue, worker } = bench([work])
  await queue.enqueueBatch('b', work, items(1), { onEnd: { task: report } })
  const { tasks, now } = await store.claim({
    worker: 'dying',
    leaseMs: 1000,
    rooms: [{ kinds: ['work'] }],
    limit: 1,
    isIdle: true,
  })
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'dying' }
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome: { type: 'succeeded' }, attempt })))
  await worker.start()
  await clock.advance(1000)
  expect(ends).toMatchObject([{ status: 'completed' }])
  await worker.stop()
})

it('a worker that stops checks the batches of what it has settled last', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { store, report, queue } = bench([work])
  await queue.enqueueBatch('b', work, items(3), { onEnd: { task: report } })
  const worker = new Worker(store, { tasks: [work] })
  await worker.start()
  await expect.poll(async () => (await store.count({ kind: 'work' })).succeeded).toBe(3)
  await worker.stop()
  expect(await store.batches.get('b')).toMatchObject({ status: 'completed', endings: 1 })
})

it('a drain ends after the task that follows', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { store, report, ends, queue } = bench([work])
  await queue.enqueueBatch('b', work, items(30), { onEnd: { task: report } })
  await new Worker(store, { tasks: [work, report] }).drain()
  expect(ends).toMatchObject([{ status: 'completed', counts: { succeeded: 30 } }])
})

it('refuses what cannot be: a name, an id of its own, an option, an end without a task', async () => {
  const work = defineTask('work', { handler: (_: number) => {} })
  const { queue } = bench([work])
  await expect(queue.enqueueBatch('a b', work, [])).rejects.toThrow('The name of a batch must be 1 to 100 letters')
  const own = [{ payload: 1, id: 'x' } as { payload: number }]
  await expect(queue.enqueueBatch('b', work, own)).rejects.toThrow("A task of a batch has no 'id' of its own")
  const options = JSON.parse('{"onend":{}}')
  await expect(queue.enqueueBatch('b', work, [], options)).rejects.toThrow("Did you mean 'onEnd'?")
  const unique = { key: String, while: 'unfinished', conflict: 'keep' } as const
  const keyed = defineTask('keyed', { unique, handler: (_: number) => {} })
  await expect(queue.enqueueBatch('b', keyed, items(1))).rejects.toThrow(
    "A task of a batch, here a 'keyed', cannot have a unique key.",
  )
  const codec = encrypted({ keys: { k: 'ab'.repeat(32) }, current: 'k' })
  const secret = defineTask('secret', { codec, handler: (_: BatchEnd) => {} })
  await expect(queue.enqueueBatch('b', work, [], { onEnd: { task: secret } })).rejects.toThrow(
    "'onEnd' cannot be the task",
  )
  await expect(queue.enqueueBatch('b', work, [], JSON.parse('{"onEnd":{}}'))).rejects.toThrow("'onEnd' needs a 'task'")
})
