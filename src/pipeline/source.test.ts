import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MemoryStore } from '../store/internal.js'

import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { jsonl, pipeline, type RunHandle, type RunResult, type Source, SourceChangedError, stage } from './index.js'

const clock = fakeClock()
let store: MemoryStore
let folder: string

beforeEach(async () => {
  store = new MemoryStore({ clock })
  folder = await mkdtemp(join(tmpdir(), 'redrive-source-'))
})

afterEach(() => rm(folder, { recursive: true }))

/** Lets time pass until the run is over for this process. Reading a file takes real time. */
async function finish(run: RunHandle): Promise<RunResult> {
  let isOver = false
  const over = run.result.finally(() => {
    isOver = true
  })
  over.catch(() => {})
  while (!isOver) {
    await clock.advance('100ms')
    await new Promise(resolve => setTimeout(resolve, 1))
  }
  return over
}

function collecting() {
  const seen: unknown[] = []
  return {
    seen,
    line: pipeline(
      'collect',
      stage('see', (item: unknown) => void seen.push(item)),
    ),
  }
}

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

describe('a source', () => {
  async function* slowly(): AsyncGenerator<number> {
    yield 1
    yield 2
    await sleep(60_000, clock)
    yield 3
  }

  it('may be slow: its items are taken a moment after they come, and its lease is renewed meanwhile', async () => {
    const { seen, line } = collecting()
    const run = await line.start(slowly(), { store, clock })
    await clock.advance('1s')
    expect(seen).toEqual([1, 2])
    await clock.advance('45s')
    expect(await store.runs.get(run.id)).toMatchObject({ status: 'running', position: 2 })
    expect(await finish(run)).toMatchObject({ status: 'completed', total: 3 })
  })

  it('that throws at once says that no item was read', async () => {
    const broken = {
      [Symbol.iterator]: (): Iterator<number> => {
        throw new Error('no connection')
      },
    }
    const result = await finish(await collecting().line.start(broken, { store, clock, id: 'r' }))
    expect(result).toMatchObject({ status: 'interrupted', position: 0 })
    expect(result.error?.message).toContain("No item was read from the source of the run 'r': Error: no connection.")
  })

  it('that throws interrupts the run: the items before are worked on, and a resume reads on', async () => {
    const { seen, line } = collecting()
    function* broken() {
      yield* numbers(1500)
      throw new Error('connection lost')
    }
    const result = await finish(await line.start(broken(), { store, clock, id: 'r' }))
    expect(result).toMatchObject({ status: 'interrupted', position: 1500, counts: { succeeded: 1500 } })
    expect(result.sourceError).toContain('connection lost')
    expect(result.error).toMatchObject({ code: 'run_interrupted', cause: { message: 'connection lost' } })
    expect(() => result.orThrow()).toThrow(/read up to item 1500, and no further: Error: connection lost/)

    const again = await line.resume('r', { store, clock, source: numbers(2000) })
    expect(await finish(again)).toMatchObject({ status: 'completed', position: 2000, counts: { succeeded: 2000 } })
    expect(seen).toHaveLength(2000)
    expect(new Set(seen).size).toBe(2000)
  })

  it('that is not given again leaves the run interrupted, once the items that were taken have ended', async () => {
    const { line } = collecting()
    function* broken() {
      yield* numbers(10)
      throw new Error('connection lost')
    }
    await finish(await line.start(broken(), { store, clock, id: 'r' }))
    const result = await finish(await line.resume('r', { store, clock }))
    expect(result).toMatchObject({ status: 'interrupted', position: 10 })
  })

  it.each([
    ['undefined', undefined, 'it is undefined'],
    ['what JSON cannot hold', () => {}, 'JSON cannot hold a function'],
    ['an item that is too long', 'x'.repeat(2 ** 20), 'characters long'],
  ])('that yields %s interrupts the run, and the error names the position', async (_, item, problem) => {
    const { line } = collecting()
    const result = await finish(await line.start([1, 2, item, 4], { store, clock }))
    expect(result).toMatchObject({ status: 'interrupted', position: 2, counts: { succeeded: 2 } })
    expect(result.sourceError).toMatch(/item at position 2 of the source cannot be taken/)
    expect(result.sourceError).toContain(problem)
  })

  it('whose ids the store does not take interrupts the run', async () => {
    const { line } = collecting()
    const itemId = (item: unknown) => (item === 1500 ? 'end:1' : String(item))
    const result = await finish(await line.start(numbers(2000), { store, clock, itemId }))
    expect(result).toMatchObject({ status: 'interrupted', position: 1000, counts: { succeeded: 1000 } })
    expect(result.sourceError).toMatch(/must not begin with 'end:'/)
  })

  it('that is shorter than what the run has read of it interrupts the run', async () => {
    const { line } = collecting()
    async function* failing() {
      yield* numbers(122)
      throw new Error('gone')
    }
    await finish(await line.start(failing(), { store, clock, id: 'r' }))
    const result = await finish(await line.resume('r', { store, clock, source: [1, 2, 3] }))
    expect(result).toMatchObject({ status: 'interrupted', position: 122 })
    expect(result.error?.cause).toBeInstanceOf(SourceChangedError)
    expect(result.error?.message).toMatch(
      /it ends after 3 items, and the run has read 122\. Bring it back, or start another run\.$/,
    )
    const whole = await line.resume('r', { store, clock, source: numbers(122) })
    expect(await finish(whole)).toMatchObject({ status: 'completed', total: 122 })
  })

  it('with an item that cannot be taken is told of in whole sentences', async () => {
    const { line } = collecting()
    const { error } = await finish(await line.start([1, undefined], { store, clock, id: 'r' }))
    expect(error?.message).toMatch(/it is undefined\. Resume the run with its source to read on\.$/)
  })

  it.each([[undefined], [''], [7], [Promise.resolve('a')]])('whose itemId returns %s interrupts the run', async id => {
    const { line } = collecting()
    // As a function without types would.
    const itemId: (item: unknown) => never = item => (item === 2 ? id : String(item)) as never
    const result = await finish(await line.start(numbers(4), { store, clock, itemId }))
    expect(result).toMatchObject({ status: 'interrupted', position: 2 })
    expect(result.sourceError).toMatch(/item at position 2 .* its 'itemId' must be a text that is not empty, got /)
  })

  it('of items with their own ids needs the same function again', async () => {
    const { line } = collecting()
    async function* failing() {
      yield 0
      throw new Error('gone')
    }
    await finish(await line.start(failing(), { store, clock, id: 'r', itemId: item => `no ${item}` }))
    const result = await finish(await line.resume('r', { store, clock, source: numbers(2) }))
    expect(result.sourceError).toMatch("The run 'r' was opened with 'itemId'. Pass the same function to resume().")
  })

  it('is refused at once if it cannot be read', async () => {
    const { line } = collecting()
    const start = (source: string) => line.start(JSON.parse(source), { store, clock })
    await expect(start('"in.jsonl"')).rejects.toThrow('To read a file, pass jsonl("in.jsonl").')
    await expect(start('{}')).rejects.toThrow(/A source is iterable/)
  })

  it('is read no further while too many items are unfinished', async () => {
    let read = 0
    function* counted() {
      while (read < 10_000) yield ++read
    }
    const wait = stage('wait', () => sleep(10_000, clock), { concurrency: 10 })
    const run = await pipeline('wait', wait).start(counted(), { store, clock, maxUnfinished: 100 })
    await clock.advance('5s')
    expect(read).toBe(100)
    await clock.advance('30s')
    expect(read).toBeGreaterThan(100)
    expect(read).toBeLessThanOrEqual(100 + 40)
    await run.cancel()
    expect(await finish(run)).toMatchObject({ status: 'cancelled', counts: { waiting: 0, running: 0 } })
  })

  it('has one reader: a second process stands by, and reads on when the first has died', async () => {
    const { seen, line } = collecting()
    await store.runs.open({
      id: 'r',
      pipeline: 'collect',
      version: '1',
      stages: ['see'],
      settings: {
        failureBudget: 1,
        stageBudgets: {},
        checkInterval: 1000,
        budgetWindow: undefined,
        completedFrom: 0.95,
        partialFrom: 0.5,
        maxUnfinished: 10_000,
        concurrency: {},
      },
      reader: { name: 'dying', leaseMs: 30_000 },
    })
    const chunk = { reader: 'dying', leaseMs: 30_000, position: 0, isEnd: false }
    await store.runs.take('r', { ...chunk, items: numbers(5).map(n => ({ payload: String(n) })) })
    const run = await line.resume('r', { store, clock, source: numbers(8) })
    await clock.advance('10s')
    expect(seen).toEqual([0, 1, 2, 3, 4])
    await clock.advance('30s')
    expect(await finish(run)).toMatchObject({ status: 'completed', total: 8 })
    expect(seen).toEqual(numbers(8))
  })
})

describe('a JSONL file', () => {
  const write = (lines: readonly string[]) => writeFile(join(folder, 'in.jsonl'), lines.join('\n'))
  const source = (options = {}): Source<unknown> => jsonl(join(folder, 'in.jsonl'), options)

  it('is read line by line, whatever the length of its lines, and blank lines are skipped', async () => {
    const { seen, line } = collecting()
    const long = { text: 'ä'.repeat(100_000) }
    await write(['{"a":1}', '', '  ', JSON.stringify(long), '"ü"\r', 'null'])
    await finish(await line.start(source(), { store, clock }))
    expect(seen).toEqual([{ a: 1 }, long, 'ü', null])
  })

  it('stops at a line that is not JSON, with an error that names file and line, or skips it', async () => {
    const { seen, line } = collecting()
    await write(['1', '', '{oops', '3'])
    const result = await finish(await line.start(source(), { store, clock }))
    expect(result).toMatchObject({ status: 'interrupted', position: 1 })
    expect(result.sourceError).toMatch(/in\.jsonl:3: the line is not JSON/)
    await finish(await line.start(source({ onBadLine: 'skip' }), { store, clock }))
    expect(seen).toEqual([1, 1, 3])
  })

  it('is continued at the byte where the run has left it', async () => {
    const { seen, line } = collecting()
    await write(['{"ö":1}', '2', '{broken', '4'])
    await finish(await line.start(source(), { store, clock, id: 'r' }))
    await write(['{"ö":1}', '2', '3', '4', ''])
    await appendFile(join(folder, 'in.jsonl'), '5')
    expect(await finish(await line.resume('r', { store, clock, source: source() }))).toMatchObject({
      status: 'completed',
      total: 5,
    })
    expect(seen).toEqual([{ ö: 1 }, 2, 3, 4, 5])
  })

  it('is not continued if the last line that the run took has changed', async () => {
    const { line } = collecting()
    await write(['1', '2', '{broken'])
    await finish(await line.start(source(), { store, clock, id: 'r' }))
    await write(['1', '7', '3'])
    const result = await finish(await line.resume('r', { store, clock, source: source() }))
    expect(result).toMatchObject({ status: 'interrupted', position: 2 })
    expect(result.sourceError).toMatch(/line 2, the last that it took, has changed/)
  })

  it('is refused with an option that does not exist', () => {
    const options: object = { onBadline: 'skip' }
    expect(() => jsonl('in.jsonl', options)).toThrow(/jsonl\(\) takes no 'onBadline'\. Did you mean 'onBadLine'\?/)
  })

  it('that does not exist is said so', async () => {
    const { line } = collecting()
    const result = await finish(await line.start(source(), { store, clock }))
    expect(result.sourceError).toMatch(/ENOENT.*in\.jsonl/)
  })
})
