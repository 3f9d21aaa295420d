import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { MemoryStore, type StoreContract } from '../store/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import { defineTask, later, skip, Worker } from '../task/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import {
  FailureBudgetExceededError,
  pipeline,
  type RunHandle,
  type RunResult,
  type StageContext,
  StageGoneError,
  stage,
} from './index.js'

const STORES = [
  ['memory', async (clock: FakeClock) => new MemoryStore({ clock })],
  ['SQLite', (clock: FakeClock) => openSqlite(join(folder, 'redrive.db'), { clock })],
] as const

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'redrive-run-'))
})

afterEach(() => rm(folder, { recursive: true }))

/** Lets time pass until the run is over for this process. */
async function finish(clock: FakeClock, run: RunHandle): Promise<RunResult> {
  let isOver = false
  const over = run.result.finally(() => {
    isOver = true
  })
  over.catch(() => {})
  for (let seconds = 0; !isOver && seconds < 1000; seconds++) await clock.advance('1s')
  return over
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

/** A pipeline of three stages that remembers its calls. */
function counting(fail: (name: string, n: number, attempt: number) => void = () => {}) {
  const calls: string[] = []
  const step = (name: string) =>
    stage(name, (n: number, { attempt }) => {
      calls.push(`${name} ${n}`)
      fail(name, n, attempt)
      return n + 1
    })
  return { calls, line: pipeline('line', step('a'), step('b'), step('c')) }
}

describe.each(STORES)('on %s,', (_, open) => {
  const stores: StoreContract[] = []

  async function setUp() {
    const clock = fakeClock()
    const store = await open(clock)
    stores.push(store)
    return { clock, store }
  }

  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close()
  })

  describe('a run', () => {
    it('takes all items through all stages, and has their results in the order of the source', async () => {
      const { clock, store } = await setUp()
      const line = pipeline(
        'double',
        stage('parse', (text: string) => Number(text)),
        stage('double', async n => n * 2),
        stage('filter', n => (n > 4 ? n : skip('too small'))),
      )
      const run = await line.start(['1', '2', '3', '4'], { store, clock })
      expect(await finish(clock, run)).toMatchObject({
        status: 'completed',
        total: 4,
        successRate: 1,
        counts: { succeeded: 2, skipped: 2 },
        error: undefined,
      })
      expect((await all(run.results())).map(({ value }) => value)).toEqual([6, 8])
    })

    it('ends when its last item is on record, and waits for no timer', async () => {
      const { clock, store } = await setUp()
      const pass = pipeline(
        'pass',
        stage('only', (n: number) => n),
      )
      for (const count of numbers(20)) {
        const result = await pass.run(numbers(count), { store, clock })
        expect(result).toMatchObject({ status: 'completed', counts: { succeeded: count } })
      }
    })

    it('of no items is completed', async () => {
      const { clock, store } = await setUp()
      const run = await counting().line.start([], { store, clock })
      expect(await finish(clock, run)).toMatchObject({ status: 'completed', total: 0, successRate: 1 })
    })

    it('retries only the stage that failed, with fresh attempts at each stage', async () => {
      const { clock, store } = await setUp()
      const { calls, line } = counting((name, _, attempt) => {
        if (name !== 'c' && attempt < 3) throw new Error('not yet')
      })
      const run = await line.start([0], { store, clock, id: 'r' })
      expect(await finish(clock, run)).toMatchObject({ status: 'completed', counts: { succeeded: 1 } })
      expect(calls).toEqual(['a 0', 'a 0', 'a 0', 'b 1', 'b 1', 'b 1', 'c 2'])
      const ledger = await store.ledger('r:000000000000')
      expect(ledger.map(({ category, attempt, outcome }) => `${category} ${attempt} ${outcome}`)).toEqual([
        'a 1 retry',
        'a 2 retry',
        'a 3 advanced',
        'b 1 retry',
        'b 2 retry',
        'b 3 advanced',
        'c 1 succeeded',
      ])
      expect(new Set(ledger.map(({ version }) => version))).toEqual(new Set([line.version]))
    })

    it('leaves a dead letter that names stage, error and input, while all other items go on', async () => {
      const { clock, store } = await setUp()
      const { line } = counting((name, n) => {
        if (name === 'b' && n === 3) throw new FinalError('no such page', { code: 'http_404' })
      })
      const run = await line.start(numbers(100), { store, clock, id: 'r' })
      expect(await finish(clock, run)).toMatchObject({ status: 'completed', successRate: 0.99, counts: { dead: 1 } })
      expect(await store.get('r:000000000002')).toMatchObject({
        status: 'dead',
        category: 'b',
        errorCode: 'http_404',
        value: '3',
        payload: '2',
        reason: 'final_error',
      })
    })

    it('says that it failed, or succeeded in part, by the thresholds', async () => {
      const { clock, store } = await setUp()
      const half = () =>
        counting((_, n) => {
          if (n >= 60) throw new FinalError('too large')
        }).line
      const options = { store, clock, failureBudget: 1 }
      const part = await finish(clock, await half().start(numbers(100), options))
      expect(part).toMatchObject({ status: 'partial_success', error: undefined })
      const thresholds = { partial: 0.9 }
      const failed = await finish(clock, await half().start(numbers(100), { ...options, thresholds }))
      expect(failed).toMatchObject({ status: 'failed', error: { code: 'run_not_completed' } })
      expect(() => failed.orThrow()).toThrow(
        /failed: 5\d % of its items .*, and 95\.2 % of its dead items died of 'final' in 'a'\. Its errors by stage: redrive pipeline report /,
      )
    })

    it('calls a stage again later at no cost of an attempt, if it asks for that', async () => {
      const { clock, store } = await setUp()
      let calls = 0
      const wait = stage('wait', (_: number) => (++calls < 4 ? later('1m') : 'done'), { policy: { attempts: 1 } })
      const run = await pipeline('waiting', wait).start([1], { store, clock })
      expect(await finish(clock, run)).toMatchObject({ status: 'completed' })
      expect(calls).toBe(4)
    })

    it('gives up a stage that takes too long', async () => {
      const { clock, store } = await setUp()
      const hang = stage('hang', (_: number, { signal }) => sleep(1e9, clock, signal), {
        timeout: '2s',
        policy: { attempts: 2 },
      })
      const run = await pipeline('hanging', hang).start([1], { store, clock, id: 'r' })
      expect(await finish(clock, run)).toMatchObject({ counts: { dead: 1 } })
      expect(await store.get('r:000000000000')).toMatchObject({ errorCode: 'timeout', attempts: 2 })
    })

    it('enqueues its last task in the transaction that ends it', async () => {
      const { clock, store } = await setUp()
      const task = defineTask('report', { handler: () => {} })
      const onEnd = { task, payload: { to: 'ada' } }
      await finish(clock, await counting().line.start([1, 2], { store, clock, id: 'r', onEnd }))
      const { payload = '' } = (await store.get('r:end:1')) ?? {}
      expect(JSON.parse(payload)).toMatchObject({
        run: 'r',
        status: 'completed',
        counts: { succeeded: 2 },
        payload: { to: 'ada' },
      })
    })

    it('counts items whose id was taken already, and runs them once', async () => {
      const { clock, store } = await setUp()
      const { calls, line } = counting()
      const itemId = (n: number) => `item-${n % 3}`
      const run = await line.start(numbers(10), { store, clock, itemId })
      expect(await finish(clock, run)).toMatchObject({ total: 3, duplicates: 7, position: 10 })
      expect(calls).toHaveLength(9)
    })

    it('tells the code of a stage about its item', async () => {
      const { clock, store } = await setUp()
      const seen: unknown[] = []
      const look = stage(
        'look',
        (_: string, { id, run, stage, attempt }) => void seen.push({ id, run, stage, attempt }),
      )
      const itemId = (text: string) => text.toUpperCase()
      await finish(clock, await pipeline('looking', look).start(['x'], { store, clock, id: 'r', itemId }))
      expect(seen).toEqual([{ id: 'X', run: 'r', stage: 'look', attempt: 1 }])
    })
  })

  describe('the value of a stage', () => {
    it.each([
      ['undefined', () => undefined, /it is undefined, and the stage 'next' comes next/],
      ['a function', () => () => 1, /JSON cannot hold a function/],
      ['a Map', () => new Map([[1, 2]]), /the contents of a Map/],
      ['a number that JSON lacks', () => ({ rate: NaN }), /NaN/],
      ['too long', () => 'x'.repeat(2 ** 20), /characters long, and 1048576 are allowed/],
    ])('is a final failure that names stage and item, if it is %s', async (_, value, problem) => {
      const { clock, store } = await setUp()
      const line = pipeline(
        'line',
        stage('bad', (_: number) => value()),
        stage('next', () => 1),
      )
      await finish(clock, await line.start([1], { store, clock, id: 'r' }))
      const { errorCode, errorMessage = '', attempts, category } = (await store.get('r:000000000000')) ?? {}
      expect({ errorCode, attempts, category }).toEqual({
        errorCode: 'stage_value_invalid',
        attempts: 1,
        category: 'bad',
      })
      expect(errorMessage).toMatch(/'bad'.*'000000000000'/)
      expect(errorMessage).toMatch(problem)
    })

    it('may be undefined at the last stage', async () => {
      const { clock, store } = await setUp()
      const run = await pipeline(
        'line',
        stage('write', (_: number) => {}),
      ).start([1], { store, clock })
      expect(await finish(clock, run)).toMatchObject({ status: 'completed' })
      expect(await all(run.results())).toEqual([{ id: '000000000000', value: undefined }])
    })
  })

  describe('the concurrency of a stage', () => {
    /** Two stages that take a second each, and how many of each ran at most at once. */
    function busy(clock: FakeClock, concurrency: number) {
      const running: Record<string, number> = { a: 0, b: 0 }
      const most: Record<string, number> = { a: 0, b: 0 }
      const step = (name: string, slots: number) =>
        stage(
          name,
          async (n: number) => {
            running[name] = (running[name] ?? 0) + 1
            most[name] = Math.max(most[name] ?? 0, running[name])
            await sleep(1000, clock)
            running[name]--
            return n
          },
          { concurrency: slots },
        )
      return { most, line: pipeline('busy', step('a', concurrency), step('b', 2 * concurrency)) }
    }

    it('bounds how many items of it run at once, and is used', async () => {
      const { clock, store } = await setUp()
      const { most, line } = busy(clock, 5)
      const result = await finish(clock, await line.start(numbers(100), { store, clock }))
      expect(result).toMatchObject({ status: 'completed', durationMs: expect.any(Number) })
      expect(most.a).toBe(5)
      expect(most.b).toBeLessThanOrEqual(10)
      // A slot never stands idle between two items: 100 items, 5 at a time, a second each, and one more for the last.
      expect(result.durationMs).toBeLessThanOrEqual(21_000)
    })

    it('of a run holds from its first item on, also after a resume', async () => {
      const { clock, store } = await setUp()
      const { most, line } = busy(clock, 5)
      const run = await line.start(numbers(100), { store, clock, id: 'r', concurrency: { a: 3 } })
      await clock.advance('5s')
      expect(most.a).toBe(3)
      const stopped = run.stop()
      await clock.advance('5s')
      await stopped
      most.a = 0
      const again = await line.resume('r', { store, clock, source: numbers(100), concurrency: { a: 2 } })
      expect(await finish(clock, again)).toMatchObject({ status: 'completed', counts: { succeeded: 100 } })
      expect(most.a).toBe(2)
    })

    it('of a stage that the pipeline does not have is refused, and so is its budget', async () => {
      const { clock, store } = await setUp()
      const { line } = counting()
      const problem = /names 'llm', and the pipeline 'line' has no such stage\. Its stages: a, b, c\./
      await expect(line.run([1], { store, clock, concurrency: { llm: 3 } })).rejects.toThrow(problem)
      await expect(line.run([1], { store, clock, stageBudgets: { llm: 0.1 } })).rejects.toThrow(problem)
      const run = await line.start([1], { store, clock, id: 'r' })
      await expect(run.change({ concurrency: { llm: 3 } })).rejects.toThrow(problem)
      await finish(clock, run)
      await expect(line.resume('r', { store, clock, concurrency: { llm: 3 } })).rejects.toThrow(problem)
    })

    it('bounds how many items end after the failure budget has stopped the run', async () => {
      const { clock, store } = await setUp()
      let calls = 0
      // The slots become free one after another, so that each end may start an item that was taken ahead.
      const failing = stage(
        'a',
        async (n: number) => {
          calls++
          await sleep(n < 5 ? 10 * (n + 1) : 50, clock)
          throw new FinalError('down')
        },
        { concurrency: 5 },
      )
      const options = { store, clock, id: 'r', failureBudget: 0.1, checkInterval: 10 }
      const run = await pipeline('line', failing).start(numbers(100), options)
      const result = await finish(clock, run)
      expect(result).toMatchObject({ status: 'stopped', stop: { processed: 10, dead: 10 } })
      expect([calls, result.counts.dead]).toEqual([15, 15])
    })

    it('of a run that is paused bounds no other run', async () => {
      const { clock, store } = await setUp()
      const { most, line } = busy(clock, 5)
      const worker = new Worker(store, { pipelines: [line], clock })
      await worker.start()
      for (const [id, slots] of Object.entries({ slow: 1, other: 5 })) {
        const run = await line.start(numbers(100), { store, clock, id, concurrency: { a: slots } })
        await clock.advance('2s')
        const stopped = run.stop()
        await clock.advance('5s')
        await stopped
      }
      most.a = 0
      await clock.advance('5s')
      expect(most.a).toBe(1)
      await store.runs.change('slow', { isPaused: true })
      await clock.advance('5s')
      expect(most.a).toBe(5)
      await store.runs.change('slow', { isPaused: false })
      await clock.advance('3s')
      most.a = 0
      await clock.advance('5s')
      expect(most.a).toBe(1)
      const stopped = worker.stop()
      await clock.advance('5s')
      await stopped
    })

    it('can be changed while the run goes on', async () => {
      const { clock, store } = await setUp()
      const { most, line } = busy(clock, 5)
      const run = await line.start(numbers(100), { store, clock })
      await clock.advance('2s')
      await run.change({ concurrency: { a: 20 } })
      await finish(clock, run)
      expect(most).toMatchObject({ a: 20, b: 10 })
    })
  })

  describe('a rate limit', () => {
    it('holds the stage, and hands items back uncounted that have not started', async () => {
      const { clock, store } = await setUp()
      let open = false
      const calls: number[] = []
      // The first four succeed, so that items are taken ahead when the others meet the limit.
      const limited = stage(
        'limited',
        async (n: number) => {
          calls.push(n)
          await sleep(10, clock)
          if (!open && n >= 4) throw new RateLimitedError('slow down', { retryAfterMs: 60_000 })
          return n
        },
        { concurrency: 2 },
      )
      const run = await pipeline('limited', limited).start(numbers(10), { store, clock, id: 'r' })
      await clock.advance('1s')
      expect(calls).toEqual([0, 1, 2, 3, 4, 5])
      open = true
      await clock.advance('58s')
      expect(calls).toHaveLength(6)
      expect(await finish(clock, run)).toMatchObject({ status: 'completed', counts: { succeeded: 10 } })
      expect(calls).toHaveLength(12)
      for (const { attempts } of (await store.list({ kind: 'pipeline:limited' }, { limit: 100 })).items)
        expect(attempts).toBe(0)
    })
  })

  describe('a failure budget', () => {
    const broken = () =>
      counting((name, n) => {
        if (name === 'b' && n % 2 === 0) throw new FinalError('unprocessable', { code: 'http_422' })
      })

    it('stops the run at a check, and names the cause; a resume counts afresh', async () => {
      const { clock, store } = await setUp()
      const { line } = broken()
      const options = { store, clock, id: 'r', checkInterval: 100, failureBudget: 0.2 }
      const result = await finish(clock, await line.start(numbers(1000), options))
      expect(result).toMatchObject({
        status: 'stopped',
        stop: { budget: 0.2, cause: { errorCode: 'http_422', stage: 'b', share: 1 } },
      })
      expect(result.counts.running).toBe(0)
      expect(result.counts.succeeded + result.counts.dead).toBeLessThan(200)
      expect(result.error).toBeInstanceOf(FailureBudgetExceededError)
      expect(() => result.orThrow()).toThrow(
        /stopped at \d+(\.\d)? % dead, 100 % of them 'http_422' in 'b': \d+ of 1\d\d, /,
      )

      const again = await counting().line.resume('r', { store, clock, source: numbers(1000), failureBudget: 0.5 })
      expect(await finish(clock, again)).toMatchObject({ total: 1000, counts: { waiting: 0 } })
    })
  })

  describe('a run under control', () => {
    it('pauses and goes on', async () => {
      const { clock, store } = await setUp()
      const wait = stage('wait', (n: number) => sleep(1000, clock).then(() => n), { concurrency: 1 })
      const run = await pipeline('slow', wait).start(numbers(10), { store, clock })
      await clock.advance('3s')
      await run.pause({ who: 'ada', why: 'lunch' })
      await clock.advance('1s')
      const { counts } = (await store.runs.get(run.id)) ?? {}
      await clock.advance('1m')
      expect(await store.runs.get(run.id)).toMatchObject({ status: 'paused', counts: { ...counts, running: 0 } })
      await run.resume({ who: 'ada' })
      expect(await finish(clock, run)).toMatchObject({ status: 'completed', counts: { succeeded: 10 } })
    })

    it('is cancelled with all that waits and runs', async () => {
      const { clock, store } = await setUp()
      const hang = stage('hang', (_: number, { signal }) => sleep(1e9, clock, signal), {
        concurrency: 3,
        timeout: '1d',
      })
      const run = await pipeline('hanging', hang).start(numbers(20), { store, clock })
      await clock.advance('1s')
      await run.cancel({ who: 'ada' })
      expect(await finish(clock, run)).toMatchObject({ status: 'cancelled', counts: { cancelled: 20 } })
    })

    it('is handed back when it is told to stop, and resumed without running a stage twice', async () => {
      const { clock, store } = await setUp()
      const calls: string[] = []
      const step = (name: string) =>
        stage(
          name,
          async (n: number) => {
            await sleep(100, clock)
            calls.push(`${name} ${n}`)
            return n
          },
          { concurrency: 4 },
        )
      const line = pipeline('line', step('a'), step('b'), step('c'))
      const run = await line.start(numbers(50), { store, clock, id: 'r' })
      await clock.advance('450ms')
      const stopped = run.stop()
      await clock.advance('1s')
      await stopped
      expect(await store.runs.get('r')).toMatchObject({ counts: { running: 0 } })
      expect((await run.result).error?.message).toBe(
        "The run 'r' is running: this process stopped working on it. Resume it to go on.",
      )
      const again = await line.resume('r', { store, clock, source: numbers(50) })
      expect(await finish(clock, again)).toMatchObject({ status: 'completed', counts: { succeeded: 50 } })
      expect(calls).toHaveLength(150)
      expect(new Set(calls).size).toBe(150)
    })

    it('is not resumed while items are at a stage that is gone, unless they are dead', async () => {
      const { clock, store } = await setUp()
      const only = (name: string, work: (n: number) => number) => pipeline('line', stage(name, work))
      const down = only('old', n => {
        if (n === 0) throw new FinalError('no')
        throw new Error('down')
      })
      const run = await down.start(numbers(4), { store, clock, id: 'r', failureBudget: 1 })
      await clock.advance('100ms')
      const stopped = run.stop()
      await clock.advance('1s')
      await stopped
      const renamed = only('new', n => n)
      const resuming = renamed.resume('r', { store, clock })
      await expect(resuming).rejects.toThrow(StageGoneError)
      await expect(resuming).rejects.toThrow(
        "The pipeline 'line' has no stage 'old', and the run 'r' has 3 items there. Move them to another stage, then resume it: redrive pipeline reprocess r --stage old --as STAGE",
      )
      expect(await store.runs.get('r')).toMatchObject({ stages: ['new'], counts: { waiting: 3, dead: 1 } })

      const by = { who: 'ada' }
      await store.runs.reprocess({ pipeline: 'line', run: 'r', stage: 'old' }, { limit: 100, as: 'new', by })
      const again = await renamed.resume('r', { store, clock })
      expect(await finish(clock, again)).toMatchObject({ status: 'completed', counts: { succeeded: 4 } })

      async function* failing() {
        yield 0
        throw new Error('gone')
      }
      await finish(clock, await down.start(failing(), { store, clock, id: 's', failureBudget: 1 }))
      const resumed = await renamed.resume('s', { store, clock, source: numbers(4) })
      expect(await finish(clock, resumed)).toMatchObject({ counts: { succeeded: 3, dead: 1 } })
    })

    it('reports its progress', async () => {
      const { clock, store } = await setUp()
      const wait = stage('wait', (n: number) => sleep(1000, clock).then(() => n), { concurrency: 10 })
      const run = await pipeline('slow', wait).start(numbers(50), { store, clock })
      const seen = all(run.progress())
      await finish(clock, run)
      const snapshots = await seen
      expect(snapshots.at(-1)).toMatchObject({ status: 'completed', total: 50, ended: 50, isRead: true })
      expect(snapshots.length).toBeGreaterThan(3)
      expect(snapshots.at(3)).toMatchObject({ leftMs: expect.any(Number) })
      expect(snapshots.at(3)?.perSecond).toBeGreaterThan(5)
    })

    it('emits one stream of work events, with pipeline, run and stage', async () => {
      const { clock, store } = await setUp()
      const events: WorkEvent[] = []
      const { line } = counting((name, _, attempt) => {
        if (name === 'b' && attempt === 1) throw new Error('once')
      })
      await finish(clock, await line.start([1], { store, clock, id: 'r', sink: event => void events.push(event) }))
      expect(events.map(({ type, work }) => `${work.stage ?? work.kind} ${type}`)).toEqual([
        'run run_started',
        'a attempt_started',
        'a attempt_succeeded',
        'b attempt_started',
        'b retry_scheduled',
        'b attempt_started',
        'b attempt_succeeded',
        'c attempt_started',
        'c attempt_succeeded',
        'run run_ended',
      ])
      expect(events.at(-1)).toMatchObject({ status: 'completed', counts: { succeeded: 1 } })
      expect(events[1]?.work).toMatchObject({ kind: 'item', name: 'line/a', pipeline: 'line', run: 'r' })
    })
  })

  describe('a worker with pipelines', () => {
    it('works on all runs of them, beside plain tasks', async () => {
      const { clock, store } = await setUp()
      const ran: string[] = []
      const task = defineTask('plain', { handler: () => void ran.push('plain') })
      const { line } = counting()
      const run = await line.start([1, 2, 3], { store, clock, id: 'r' })
      await run.stop()
      await store.enqueue([{ kind: 'plain', payload: 'null' }])
      const worker = new Worker(store, { tasks: [task], pipelines: [line], clock })
      await worker.start()
      await clock.advance('5s')
      expect(ran).toEqual(['plain'])
      expect(await store.runs.get('r')).toMatchObject({ counts: { waiting: 0, running: 0 } })
      await worker.stop()
    })

    it('leaves items to others at a stage that it does not run', async () => {
      const { clock, store } = await setUp()
      const { calls, line } = counting()
      const first = new Worker(store, { pipelines: [line], categories: ['a', 'c'], clock })
      await first.start()
      const run = await line.start(numbers(20), { store, clock, id: 'r' })
      await run.stop()
      await clock.advance('5s')
      const resumed = await store.runs.get('r')
      expect(resumed?.byStage.find(({ stage }) => stage === 'b')?.counts).toMatchObject({ running: 0 })
      const second = new Worker(store, { pipelines: [line], categories: ['b'], clock })
      await second.start()
      await clock.advance('10s')
      expect(await store.runs.get('r')).toMatchObject({ counts: { waiting: 0, running: 0 } })
      expect(new Set(calls).size).toBe(calls.length)
      await first.stop()
      await second.stop()
    })

    it('warns of items that wait at a stage which is gone', async () => {
      const { clock, store } = await setUp()
      const failing = pipeline(
        'line',
        stage('old', (_: number) => Promise.reject(new Error('down'))),
      )
      const run = await failing.start(numbers(3), { store, clock, id: 'r' })
      await clock.advance('100ms')
      await run.stop()
      const warnings: string[] = []
      const listener = ({ message }: Error) => void warnings.push(message)
      process.on('warning', listener)
      const worker = new Worker(store, { pipelines: [counting().line], clock })
      await worker.start()
      await new Promise(resolve => setImmediate(resolve))
      process.off('warning', listener)
      await worker.stop()
      expect(warnings.join()).toMatch(/has no stage 'old', and 3 items of it wait there.*--as STAGE/)
    })

    it('takes no items ahead of slow calls, which another machine could run', async () => {
      const { clock, store } = await setUp()
      let running = 0
      const slow = stage(
        'slow',
        async (n: number) => {
          running++
          await sleep(20_000, clock)
          running--
          return n
        },
        { concurrency: 5 },
      )
      const line = pipeline('line', slow)
      const other = new Worker(store, { pipelines: [line], clock })
      await other.start()
      const run = await line.start(numbers(10), { store, clock })
      await clock.advance('5s')
      expect(running).toBe(10)
      expect(await finish(clock, run)).toMatchObject({ status: 'completed' })
      await other.stop()
    })
  })
})

it('gives a stage its item in one piece: copied, it has its signal and its functions', async () => {
  const clock = fakeClock()
  const copies: StageContext[] = []
  const line = pipeline(
    'line',
    stage('only', (n: number, item) => {
      copies.push({ ...item })
      return n
    }),
  )
  await finish(clock, await line.start([1], { store: new MemoryStore({ clock }), clock }))
  expect(copies).toMatchObject([
    { signal: expect.any(AbortSignal), once: expect.any(Function), used: expect.any(Function) },
  ])
})
