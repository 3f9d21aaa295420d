import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { emptyPostgresStore } from '../../test/services/empty-postgres-store.js'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { MemoryStore, type StoreContract, stepRecord } from '../store/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { defineTask, later, type TaskContext, TaskQueue, Worker, type WorkerOptions } from './index.js'

/** The results and names of steps, and the fence of their records, as every store has to keep them. */

let pool: pg.Pool
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
}, 120_000)
afterAll(() => pool.end())

interface Opened {
  readonly store: StoreContract
  readonly clock: FakeClock
}

const STORES: Record<string, () => Opened | Promise<Opened>> = {
  memory: () => {
    const clock = fakeClock()
    return { store: new MemoryStore({ clock }), clock }
  },
  SQLite: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-steps-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const clock = fakeClock()
    return { store: await openSqlite(join(folder, 'redrive.db'), { clock }), clock }
  },
  PostgreSQL: () => emptyPostgresStore(pool),
}

describe.each(Object.entries(STORES))('on %s', (_, open) => {
  /** A task whose handler is given, enqueued as `t`. Its attempts follow each other at once. */
  async function scene(handler: (task: TaskContext) => unknown, options: Partial<WorkerOptions> = {}) {
    const { store, clock } = await open()
    const task = defineTask('signup', {
      policy: { attempts: 3, backoff: 'none', jitter: 'none' },
      handler: (_: unknown, context) => handler(context),
    })
    const workers: Worker[] = []
    onTestFinished(async () => {
      await Promise.all(workers.map(worker => worker.stop()))
      await store.close()
    })
    const add = async (name: string, more: Partial<WorkerOptions> = options) => {
      const worker = new Worker(store, { tasks: [task], clock, name, ...more })
      workers.push(worker)
      await worker.start()
    }
    await new TaskQueue(store).enqueue(task, null, { id: 't' })
    await add('w1')
    const ended = async (stepMs = 1) => {
      for (;;) {
        const found = await store.get('t')
        if (found === undefined) throw new Error('There is no such task.')
        if (found.status !== 'waiting' && found.status !== 'running') return found
        await clock.advance(stepMs)
      }
    }
    const steps = async () => (await store.steps('t')).map(stepRecord)
    return { clock, store, add, ended, steps, ledger: () => store.ledger('t') }
  }

  describe('the result of a step', () => {
    const cyclic: { self?: unknown } = {}
    cyclic.self = cyclic
    it.each([
      ['a bigint', () => ({ n: 1n }), /JSON cannot hold a bigint \('n'\)/],
      ['a circle', () => cyclic, /circular structure/],
      ['more than 256 KB', () => 'x'.repeat(2 ** 18), /262146 bytes of JSON, and 262144 are allowed/],
      [
        'more than 256 KB in fewer characters',
        () => '€'.repeat(90_000),
        /270002 bytes of JSON, and 262144 are allowed/,
      ],
      ['a Map', () => new Map([[1, 2]]), /the contents of a Map/],
      ['NaN', () => Number.NaN, /NaN/],
      ['what a handler returns', () => later('5m'), /later\(\) and skip\(\) are for the handler to return/],
    ])('is refused for good if it is %s', async (_, result, problem) => {
      const call = vi.fn(result)
      const { ended, steps } = await scene(task => task.step<unknown>('call', call))
      const task = await ended()
      expect(task).toMatchObject({ status: 'dead', reason: 'final_error', errorCode: 'step_result_invalid' })
      expect(task.errorMessage).toMatch(problem)
      expect(call).toHaveBeenCalledTimes(1)
      expect(await steps()).toMatchObject([{ isDone: false, gaveUp: 'final_error' }])
    })

    it.each([
      ['undefined', () => undefined, 'undefined'],
      ['null', () => null, 'object'],
      ['of exactly 256 KB', () => 'x'.repeat(2 ** 18 - 2), 'string'],
      ['odd text', () => ({ '\u0000 é': '\u2028 \ud83d \u{1F680} \'"\\' }), 'object'],
    ])('is on record if it is %s, and the next attempt gets it', async (_, result, type) => {
      const call = vi.fn(result)
      const seen: unknown[] = []
      const { ended, steps } = await scene(async task => {
        seen.push(await task.step<unknown>('call', call))
        if (task.attempt === 1) throw new Error('again')
      })
      expect(await ended()).toMatchObject({ status: 'succeeded' })
      expect(call).toHaveBeenCalledTimes(1)
      expect(seen).toEqual([result(), result()])
      expect(seen.map(value => typeof value)).toEqual([type, type])
      expect(await steps()).toMatchObject([{ isDone: true, result: JSON.stringify(result()) }])
    })
  })

  describe('the name of a step', () => {
    it('is refused if it was used before in the same attempt', async () => {
      const second = vi.fn()
      const { ended } = await scene(async task => {
        await task.step('page', () => 1)
        await task.step('page', second)
      })
      expect(await ended()).toMatchObject({
        status: 'dead',
        errorCode: 'step_repeated',
        errorMessage: expect.stringContaining(
          "The step 'page' was already used in this attempt. Give each step a name of its own",
        ),
      })
      expect(second).not.toHaveBeenCalled()
    })

    it.each(['__proto__', 'constructor', '--x$(x)', '`$x`', ' ', '"', '\u{1F680}', 'x'.repeat(200)])(
      'may be odd: %j',
      async name => {
        const work = vi.fn(() => name)
        const { ended, steps } = await scene(async task => {
          const result = await task.step(name, work)
          if (task.attempt === 1) throw new Error('again')
          return result
        })
        expect(await ended()).toMatchObject({ status: 'succeeded', result: JSON.stringify(name) })
        expect((await steps()).map(step => step.name)).toEqual([name])
        expect(work).toHaveBeenCalledTimes(1)
      },
    )

    it.each(['', "it's", 'a\nb', 'a\u202eb', 'a\u2028b', '\ud83d', 'x'.repeat(201), 7])(
      'is refused if it is no name: %j',
      async name => {
        const { ended } = await scene(task => Reflect.apply(task.step, task, [name, () => 1]))
        expect((await ended()).errorMessage).toMatch(
          /^OptionError: The name of a step must be 1 to 200 characters long/,
        )
      },
    )

    it('may be new: the step runs, and the record of the old name stays and is noted', async () => {
      const { ended, steps, ledger } = await scene(async task => {
        await task.step(task.attempt === 1 ? 'old' : 'new', () => task.attempt)
        if (task.attempt === 1) throw new Error('deploy')
      })
      expect(await ended()).toMatchObject({ status: 'succeeded' })
      expect((await steps()).map(({ name }) => name)).toEqual(['old', 'new'])
      expect((await ledger()).at(-1)).toMatchObject({ outcome: 'succeeded', notes: { unusedSteps: ['old'] } })
    })
  })

  describe('a worker that has lost its lease', () => {
    it('records nothing, and begins no further step', async () => {
      const next = vi.fn(() => 2)
      let begin: () => void = () => {}
      let release: () => void = () => {}
      const begun = new Promise<void>(resolve => (begin = resolve))
      const released = new Promise<string>(resolve => (release = () => resolve('stale')))
      const { clock, store, add, ended, steps, ledger } = await scene(
        async task => {
          await task.step('slow', () => {
            if (task.losses > 0) return 'fresh'
            begin()
            return released
          })
          await task.step('next', next)
        },
        // Its only slot stays taken, so that it is not its own heir.
        { lease: '30s', concurrency: 1 },
      )
      await begun
      onTestFinished(release)
      // The worker cannot tell that it has lost its lease: its heartbeats are not sent.
      const heartbeat = vi.spyOn(store, 'heartbeat').mockImplementation(() => new Promise(() => {}))
      await clock.advance('29s')
      heartbeat.mockRestore()
      await clock.advance('1s')
      await add('w2', { lease: '5m' })
      expect(await ended(1000)).toMatchObject({ status: 'succeeded' })
      expect(await ledger()).toMatchObject([
        { outcome: 'lost', worker: 'w1' },
        { outcome: 'succeeded', worker: 'w2' },
      ])
      const fresh = [{ name: 'slow', result: '"fresh"' }, { name: 'next' }]
      expect(await steps()).toMatchObject(fresh)
      const recorded = vi.spyOn(store, 'recordStep')
      release()
      for (let turn = 0; turn < 10; turn++) await clock.advance(0)
      await Promise.all(recorded.mock.results.map(({ value }) => value))
      expect(await steps()).toMatchObject(fresh)
      expect(next).toHaveBeenCalledTimes(1)
    })
  })
})
