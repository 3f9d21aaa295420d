import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { checkInvariants } from '../../test/conformance/invariants.js'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { FinalError } from '../policy/index.js'
import { openPostgres, type PostgresStore } from '../store/postgres/internal.js'

import { Worker } from '../task/index.js'
import { pipeline, stage } from './index.js'

/* Two workers, each with connections of its own as two machines would have, work on the same run. */

let stores: readonly [PostgresStore, PostgresStore]

beforeEach(async () => {
  const url = await freshDatabase()
  stores = [await openPostgres(url), await openPostgres(url)]
}, 120_000)

afterEach(async () => {
  for (const store of stores) await store.close()
})

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

/** Three stages that remember who has called them. */
function line(calls: string[], who: string, fail: (n: number) => void = () => {}) {
  const step = (name: string) =>
    stage(
      name,
      async (n: number) => {
        calls.push(`${who} ${name} ${n}`)
        await new Promise(resolve => setTimeout(resolve, 2))
        if (name === 'b') fail(n)
        return n
      },
      { concurrency: 20 },
    )
  return pipeline({ name: 'line', version: '1' }, step('a'), step('b'), step('c'))
}

describe('a run on PostgreSQL', () => {
  it('is worked on by two machines, each stage of each item once, and ends once', async () => {
    const [store, other] = stores
    const calls: string[] = []
    const worker = new Worker(other, { pipelines: [line(calls, 'two')] })
    await worker.start()
    const result = await line(calls, 'one').run(numbers(500), { store, id: 'r' })
    expect(result).toMatchObject({ status: 'completed', total: 500, counts: { succeeded: 500 } })
    expect(new Set(calls.map(call => call.slice(4))).size).toBe(1500)
    expect(calls).toHaveLength(1500)
    expect(new Set(calls.map(call => call.slice(0, 3)))).toEqual(new Set(['one', 'two']))
    expect(await store.runs.get('r')).toMatchObject({ endings: 1 })
    await worker.stop()
    await checkInvariants(store)
  }, 120_000)

  it('claims the items that had to wait at a stage, and from then on keeps those that come after them', async () => {
    const [store] = stores
    const kept: boolean[] = []
    const settle = store.settle.bind(store)
    vi.spyOn(store, 'settle').mockImplementation(async settlements => {
      const answers = await settle(settlements)
      for (const [n, { outcome }] of settlements.entries())
        if (outcome.type === 'advanced' && outcome.to === 'b') kept.push(answers[n]?.result === 'kept')
      return answers
    })
    const noOp = (name: string) => stage(name, (n: number) => n, { concurrency: 20 })
    const lane = { kind: 'pipeline:no-ops', category: 'b', key: 'r' }
    await store.pause(lane, { isPaused: true })
    const run = await pipeline('no-ops', noOp('a'), noOp('b'), noOp('c')).start(numbers(4000), { store, id: 'r' })
    await expect.poll(() => kept.length, { timeout: 60_000 }).toBeGreaterThan(200)
    await store.pause(lane, { isPaused: false })
    await run.result
    expect(kept).toHaveLength(4000)
    expect(kept.slice(-1000)).not.toContain(false)
  }, 120_000)

  it('is stopped by its budget on both machines, and what was not processed waits', async () => {
    const [store, other] = stores
    const fail = (n: number) => {
      if (n % 2 === 0) throw new FinalError('unprocessable', { code: 'http_422' })
    }
    const calls: string[] = []
    const worker = new Worker(other, { pipelines: [line(calls, 'two', fail)] })
    await worker.start()
    const options = { store, id: 'r', checkInterval: 100, failureBudget: 0.2 }
    const result = await line(calls, 'one', fail).run(numbers(2000), options)
    expect(result).toMatchObject({ status: 'stopped', stop: { cause: { errorCode: 'http_422', stage: 'b' } } })
    expect(result.counts).toMatchObject({ running: 0 })
    expect(result.counts.waiting).toBeGreaterThan(500)
    await worker.stop()
    await checkInvariants(store)
  }, 120_000)
})
