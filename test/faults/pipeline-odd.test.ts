import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FinalError } from 'redrive'
import { batch, FailureBudgetExceededError, pipeline, type RunEnd, RunInterruptedError, stage } from 'redrive/pipeline'
import { defineTask } from 'redrive/task'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type ItemCounts, MemoryStore, type StoreContract } from '../../src/store/internal.js'
import { openSqlite } from '../../src/store/sqlite/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import { diceOf } from './seed.js'

const dice = diceOf('runs that go wrong')

const stores: { name: string; open: (folder: string) => Promise<StoreContract> }[] = [
  { name: 'memory', open: async () => new MemoryStore() },
  { name: 'SQLite', open: folder => openSqlite(join(folder, 'redrive.db')) },
]

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)
const BY = { who: 'test' }

describe.each(stores)('a run on $name', ({ open }) => {
  let folder: string
  let store: StoreContract
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
    store = await open(folder)
  })
  afterEach(async () => {
    await checkInvariants(store)
    await store.close()
    rmSync(folder, { recursive: true })
  })

  const QUICK = { attempts: 3, backoff: 'none', jitter: 'none' } as const
  /** A pipeline of two stages that counts the calls of its first. */
  const counting = () => {
    const calls = new Map<number, number>()
    const code = pipeline(
      'counting',
      stage(
        'double',
        (n: number) => {
          calls.set(n, (calls.get(n) ?? 0) + 1)
          return 2 * n
        },
        { concurrency: 20 },
      ),
      stage('add', (n: number) => n + 1, { concurrency: 20 }),
    )
    return { calls, code }
  }

  it('whose source throws half-way says where, keeps what it took, and can be resumed', async () => {
    const { calls, code } = counting()
    async function* broken() {
      for (const n of numbers(2500)) yield n
      throw new Error('the socket closed')
    }
    const result = await code.run(broken(), { store, id: 'torn' })
    expect(result).toMatchObject({ status: 'interrupted', position: 2500, counts: { succeeded: 2500 } })
    expect(result.error).toBeInstanceOf(RunInterruptedError)
    expect(result.error?.message).toMatch(/item 2500.*the socket closed/)
    expect((await store.runs.get('torn'))?.endings).toBe(0)

    const resumed = await (await code.resume('torn', { store, source: numbers(6000) })).result
    expect(resumed).toMatchObject({ status: 'completed', total: 6000, counts: { succeeded: 6000 }, duplicates: 0 })
    expect([...calls]).toHaveLength(6000)
    expect([...calls].filter(([, times]) => times !== 1)).toEqual([])
  })

  it('of no items completes, and its last task is enqueued once', async () => {
    const { code } = counting()
    const task = defineTask('ended', { handler: (_end: RunEnd) => {} })
    const result = await code.run([], { store, id: 'empty', onEnd: { task } })
    expect(result).toMatchObject({ status: 'completed', total: 0, successRate: 1 })
    const { items } = await store.list({ kind: 'ended' }, { limit: 10 })
    expect(items.map(({ id }) => id)).toEqual(['empty:end:1'])
    expect(JSON.parse(items[0]?.payload ?? '')).toMatchObject({ run: 'empty', status: 'completed' })
  })

  it('whose source repeats ids counts them apart, and works on each id once', async () => {
    const { calls, code } = counting()
    const source = [...numbers(1500), ...numbers(700), ...numbers(2000)]
    const options = { store, id: 'twice', itemId: (n: number) => `item-${n}` }
    const result = await code.run(source, options)
    expect(result).toMatchObject({ status: 'completed', total: 2000, duplicates: 2200, counts: { succeeded: 2000 } })
    expect([...calls].filter(([, times]) => times !== 1)).toEqual([])
  })

  it('that reaches its failure budget stops with at most what was running beyond it, and then counts afresh', async () => {
    const concurrency = dice.between(5, 40)
    const fatal = pipeline(
      'fatal',
      stage('pass', (n: number) => n, { concurrency }),
      stage(
        'die',
        async (n: number) => {
          await new Promise(setImmediate)
          if (n % 2 === 0) throw new FinalError('never', { code: 'http_422' })
          return n
        },
        { concurrency },
      ),
    )
    // The counts after each settlement that finds the run stopped.
    const stops: ItemCounts[] = []
    const settle = store.settle.bind(store)
    store.settle = async settlements => {
      const answers = await settle(settlements)
      const run = await store.runs.get('over')
      if (run?.status === 'stopped') stops.push(run.counts)
      return answers
    }
    const ended = ({ succeeded = 0, dead = 0 }: Partial<ItemCounts> = {}) => succeeded + dead
    const options = { store, id: 'over', failureBudget: 0.1, checkInterval: 100 }
    const result = await fatal.run(numbers(2000), options)
    expect(result).toMatchObject({ status: 'stopped', stop: { budget: 0.1 } })
    expect(result.stop?.processed).toBeGreaterThanOrEqual(100)
    expect(result.error).toBeInstanceOf(FailureBudgetExceededError)
    expect(result.error?.message).toMatch(/100 % of them.*http_422.*in 'die'/)
    const [stop] = stops
    expect(result.stop?.processed).toBeLessThanOrEqual(ended(stop))
    expect(ended(result.counts)).toBeLessThanOrEqual(ended(stop) + (stop?.running ?? 0))
    expect(result.counts.waiting).toBeGreaterThan(0)

    stops.length = 0
    const again = await (await fatal.resume('over', { store, source: numbers(2000) })).result
    expect(again.status).toBe('stopped')
    expect(ended(again.counts)).toBeGreaterThanOrEqual(ended(result.counts) + 100)
    const [stoppedAgain] = stops
    expect(ended(again.counts)).toBeLessThanOrEqual(ended(stoppedAgain) + (stoppedAgain?.running ?? 0))
  })

  it('of a batch stage finds the one poison of 100 in at most 14 more calls, with its retries', async () => {
    const poison = dice.between(0, 99)
    const sizes: number[] = []
    const code = pipeline(
      'poisoned',
      batch(
        'embed',
        (inputs: readonly number[]) => {
          sizes.push(inputs.length)
          if (inputs.includes(poison)) throw new Error('poison')
          return inputs.map(n => -n)
        },
        { size: 100, within: '200ms', policy: { attempts: 3, backoff: { base: '20ms' } } },
      ),
    )
    const result = await code.run(numbers(100), { store, id: 'poison' })
    expect(result.counts).toMatchObject({ succeeded: 99, dead: 1 })
    expect(sizes[0]).toBe(100)
    expect(sizes.length - 1, `calls of ${sizes}, poison ${poison}`).toBeLessThanOrEqual(14)
    const { items } = await store.runs.items('poison', { limit: 10 }, 'dead')
    expect(items.map(({ payload }) => payload)).toEqual([String(poison)])
  })

  it('whose stage was renamed leaves no item behind: they are moved to the new one', async () => {
    const makeCode = (name: string, isFixed: boolean) =>
      pipeline(
        { name: 'renamed', version: isFixed ? '2' : '1' },
        stage('first', (n: number) => n + 1),
        stage(name, (n: number) => {
          if (!isFixed) throw new FinalError('a bug', { code: 'bug' })
          return 10 * n
        }),
      )
    const old = await makeCode('parse', false).run(numbers(30), { store, id: 'old', failureBudget: 1 })
    expect(old).toMatchObject({ status: 'failed', counts: { dead: 30 } })

    const moved = { moved: 0 }
    for (let last = -1; last !== 0; moved.moved += last) {
      const filter = { pipeline: 'renamed', run: 'old', stage: 'parse' }
      last = (await store.runs.reprocess(filter, { limit: 20, as: 'read', by: BY })).moved
    }
    expect(moved).toEqual({ moved: 30 })
    const again = await (await makeCode('read', true).resume('old', { store })).result
    expect(again).toMatchObject({ status: 'completed', counts: { succeeded: 30, dead: 0 } })
    const { items } = await store.runs.items('old', { limit: 100 })
    expect(items.map(({ result }) => Number(result))).toEqual(numbers(30).map(n => 10 * (n + 1)))
    expect(await store.runs.get('old')).toMatchObject({ endings: 2 })
    const ledger = await store.ledger(items[0]?.id ?? '')
    expect(ledger.map(({ category, outcome, version }) => [category, outcome, version])).toEqual([
      ['first', 'advanced', '1'],
      ['parse', 'dead', '1'],
      ['parse', 'redriven', undefined],
      ['read', 'succeeded', '2'],
    ])
  })

  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic
  const bad: [string, () => unknown][] = [
    ['undefined', () => undefined],
    ['a bigint', () => 1n],
    ['a function', () => () => {}],
    ['a cyclic object', () => cyclic],
    ['a text of 100 MB', () => 'x'.repeat(100 * 2 ** 20)],
  ]
  it.each(bad)('whose stage returns %s for one item says which stage and item, and goes on', async (_, value) => {
    const code = pipeline(
      'odd',
      stage('make', (n: number) => (n === 17 ? value() : n), { policy: QUICK }),
      stage('keep', (n: unknown) => n),
    )
    const result = await code.run(numbers(40), { store, id: 'odd' })
    expect(result.counts).toMatchObject({ succeeded: 39, dead: 1 })
    const { items } = await store.runs.items('odd', { limit: 10 }, 'dead')
    expect(items[0]).toMatchObject({ payload: '17', category: 'make', reason: 'final_error' })
    expect(items[0]?.errorMessage).toMatch(/'make'.*17/)
  })

  it('whose last stage returns nothing succeeds', async () => {
    const code = pipeline(
      'silent',
      stage('write', (_: number) => {}),
    )
    expect(await code.run(numbers(10), { store })).toMatchObject({ status: 'completed', counts: { succeeded: 10 } })
  })
})
