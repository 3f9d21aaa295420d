import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FinalError, TimeoutError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import { fakeClock } from '../testing/index.js'
import { declareTask, defineTask, type StandardSchema, skip, TaskQueue, Worker } from './index.js'

const double = defineTask('double', {
  policy: { attempts: 2 },
  handler: (n: number) => {
    if (n < 0) throw new FinalError('There is nothing below zero.', { code: 'negative' })
    return n === 0 ? skip('zero') : { twice: 2 * n }
  },
})

async function setUp() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store, { clock })
  const worker = new Worker(store, { tasks: [double], clock })
  return { clock, store, queue, worker }
}

describe('the result of a task', () => {
  it('is there once it has succeeded, for whoever waited for it and for whoever asks later', async () => {
    const { clock, queue, worker } = await setUp()
    const { id } = await queue.enqueue(double, 21)
    const waiting = queue.result(id, { task: double, timeout: '1m' })
    await worker.start()
    await clock.advance(0)
    expect(await waiting).toEqual({ twice: 42 })
    expect(await queue.result(id, { task: double })).toEqual({ twice: 42 })
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', payload: 21, result: { twice: 42 } })
    await worker.stop()
  })

  it('is an error that says why, of a task that is dead, skipped or cancelled', async () => {
    const { clock, queue, worker } = await setUp()
    const [dead = '', skipped = '', cancelled = ''] = (
      await queue.enqueueMany(double, [{ payload: -1 }, { payload: 0 }, { payload: 1, delay: '1h' }])
    ).map(({ id }) => id)
    const answers = [dead, skipped, cancelled].map(id => queue.result(id).catch((error: unknown) => error))
    await worker.start()
    await clock.advance(0)
    await queue.cancel(cancelled)
    const errors = await Promise.all(answers)
    expect(errors).toMatchObject([
      { name: 'TaskNotSucceededError', status: 'dead', reason: 'final_error', errorCode: 'negative' },
      { code: 'task_not_succeeded', status: 'skipped', reason: 'zero' },
      { code: 'task_not_succeeded', status: 'cancelled', reason: undefined },
    ])
    expect(errors.map(String)).toEqual([
      `TaskNotSucceededError: The task '${dead}' has no result: it is dead (final_error). Its last failure: FinalError: There is nothing below zero.`,
      `TaskNotSucceededError: The task '${skipped}' has no result: it was skipped (zero)`,
      `TaskNotSucceededError: The task '${cancelled}' has no result: it was cancelled`,
    ])
    await worker.stop()
  })

  it('is not waited for beyond the timeout, and the task goes on', async () => {
    const { clock, queue, worker } = await setUp()
    const { id } = await queue.enqueue(double, 1, { delay: '2m' })
    const late = expect(queue.result(id, { timeout: '1m' })).rejects.toThrow(TimeoutError)
    await worker.start()
    await clock.advance('1m')
    await late
    await clock.advance('1m')
    expect(await queue.result(id)).toEqual({ twice: 2 })
    await worker.stop()
  })

  it('is not waited for once the signal aborts', async () => {
    const { queue } = await setUp()
    const { id } = await queue.enqueue(double, 1)
    const stop = new AbortController()
    const reason = new Error('the client hung up')
    const waiting = expect(queue.result(id, { signal: stop.signal })).rejects.toBe(reason)
    stop.abort(reason)
    await waiting
    await expect(queue.result(id, { signal: stop.signal })).rejects.toBe(reason)
  })

  it('of a task of another kind is refused at once, and so is the task itself', async () => {
    const { queue } = await setUp()
    const halve = declareTask<number, { half: number }>('halve')
    const { id } = await queue.enqueue(double, 21)
    const refusal = { name: 'TaskKindError', code: 'task_kind_mismatch', id, kind: 'double', expectedKind: 'halve' }
    await expect(queue.result(id, { task: halve })).rejects.toMatchObject(refusal)
    await expect(queue.get(id, { task: halve })).rejects.toMatchObject(refusal)
    await expect(queue.get(id, { task: halve })).rejects.toThrow(
      `The task '${id}' is of the kind 'double', not 'halve'.`,
    )
    expect(await queue.get(id, { task: double })).toMatchObject({ kind: 'double', payload: 21 })
  })

  it('of an unknown task, or one that was pruned, is an error that says so', async () => {
    const { clock, store, queue, worker } = await setUp()
    const { id } = await queue.enqueue(double, 1)
    await worker.start()
    await clock.advance('1h')
    await store.prune({ endedMs: 0 }, 10)
    for (const gone of [id, 'unknown']) {
      await expect(queue.result(gone)).rejects.toMatchObject({ code: 'task_not_found', id: gone })
      await expect(queue.result(gone)).rejects.toThrow(
        /never enqueued there, or it has ended, and its retention is over/,
      )
    }
    await worker.stop()
  })

  it('refuses an option that it does not know, and a timeout that is none', async () => {
    const { queue } = await setUp()
    await expect(queue.result('a', { timout: 1 } as object)).rejects.toThrow("Did you mean 'timeout'?")
    await expect(queue.result('a', { timeout: 'soon' as '1s' })).rejects.toThrow("'timeout' must be a duration")
    await expect(queue.get('a', { tsk: double } as object)).rejects.toThrow("Did you mean 'task'?")
    expect(() => new TaskQueue(new MemoryStore(), { clok: 1 } as object)).toThrow("Did you mean 'clock'?")
  })
})

describe('the schema of a result', () => {
  const date: StandardSchema<string, Date> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: text =>
        typeof text === 'string' && !Number.isNaN(Date.parse(text))
          ? { value: new Date(text) }
          : { issues: [{ message: 'must be a date' }] },
    },
  }

  it('makes the value that is read of the one that the handler returned', async () => {
    const { clock, store, queue } = await setUp()
    const due = declareTask('due', { result: date })
    const worker = new Worker(store, { tasks: [defineTask(due, { handler: () => '2030-01-01' })], clock })
    const { id } = await queue.enqueue(due, null)
    await worker.start()
    await clock.advance(0)
    expect(await queue.result(id, { task: due })).toEqual(new Date('2030-01-01'))
    expect((await queue.get(id, { task: due }))?.result).toEqual(new Date('2030-01-01'))
    expect((await queue.get(id))?.result).toBe('2030-01-01')
    await worker.stop()
  })

  it('refuses one that does not fit, without failing the task', async () => {
    const { clock, store, queue } = await setUp()
    const due = declareTask('due', { result: date })
    const worker = new Worker(store, { tasks: [defineTask(due, { handler: () => 'tomorrow' })], clock })
    const { id } = await queue.enqueue(due, null)
    await worker.start()
    await clock.advance(0)
    await expect(queue.result(id, { task: due })).rejects.toMatchObject({
      name: 'ResultError',
      code: 'result_invalid',
      message: `The result of the task '${id}' is invalid for the task 'due': must be a date`,
    })
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: 'tomorrow' })
    await worker.stop()
  })
})

describe('in a file that two processes share,', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'redrive-result-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('the result of a task that the other one runs arrives', async () => {
    const here = await openSqlite(join(folder, 'redrive.db'))
    const there = await openSqlite(join(folder, 'redrive.db'))
    const worker = new Worker(there, { tasks: [double] })
    await worker.start()
    const queue = new TaskQueue(here)
    const ids = await queue.enqueueMany(double, [{ payload: 1 }, { payload: 2 }, { payload: 3 }])
    const results = await Promise.all(ids.map(({ id }) => queue.result(id, { task: double })))
    expect(results).toEqual([{ twice: 2 }, { twice: 4 }, { twice: 6 }])
    await worker.stop()
    await here.close()
    await there.close()
  })
})
