import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { deadLetters } from '../../test/dead-letters.js'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { OptionError } from '../policy/index.js'
import { MemoryStore, type StoreContract } from '../store/internal.js'
import { openPostgres } from '../store/postgres/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import { defineTask, TaskQueue, Worker } from '../task/index.js'
import { operationOutcome, redriveWhenFixed } from './index.js'
import { operationNote } from './internal.js'

const folder = mkdtempSync(join(tmpdir(), 'redrive-fixed-'))
afterAll(() => rmSync(folder, { recursive: true }))

const ENGINES = {
  memory: async (): Promise<StoreContract> => new MemoryStore(),
  sqlite: () => openSqlite(join(folder, 'fixed.db')),
  postgres: async () => openPostgres(await freshDatabase(), { listen: false }),
}

const PATIENCE = { timeout: 60_000, interval: 50 }

/** A worker of one release, which heartbeats often. */
function worker(store: StoreContract, release: string, handler: (payload: { n: number }) => void): Worker {
  const charge = defineTask('charge', { policy: { attempts: 1 }, handler })
  return new Worker(store, { tasks: [charge], release, name: `runs-${release}`, lease: '600ms' })
}

describe.each(Object.entries(ENGINES))('a redrive that waits for a release, on the %s store', (_, open) => {
  it('starts when the deploy is over, with all letters of that moment', async () => {
    const store = await open()
    const old = worker(store, '1.7.0', ({ n }) => {
      throw new Error(`order ${n} not found`)
    })
    await old.start()
    const queue = new TaskQueue(store)
    const charge = defineTask('charge', { handler: (_: { n: number }) => {} })
    const die = async (numbers: readonly number[]) => {
      const { dead } = await store.count({ status: 'dead' })
      await Promise.all(numbers.map(n => queue.enqueue(charge, { n }, { id: `order-${n}` })))
      await expect.poll(async () => (await store.count({})).dead, PATIENCE).toBe(dead + numbers.length)
    }
    await die(Array.from({ length: 20 }, (_, n) => n))
    const group = (await store.get('order-1'))?.group ?? ''

    const { id, status } = await redriveWhenFixed(store, group, { release: '1.8.0', who: 'ada', canary: 3 })
    expect(status).toBe('planned')
    // The old release goes on failing until the deploy is over.
    await die([20])
    const fixed = worker(store, '1.8.0', () => {})
    await fixed.start()
    await beats(store, 'runs-1.8.0', 3)
    const planned = (await store.operations.get(id)) ?? expect.fail()
    expect(planned).toMatchObject({ status: 'planned', moved: 0 })
    expect(operationNote(planned, await store.workers(), await store.now())).toBe(
      "It waits until all live workers of 'charge' run 1.8.0 or later. runs-1.7.0 runs 1.7.0.",
    )

    await old.stop()
    await expect.poll(async () => (await store.operations.get(id))?.status, PATIENCE).toBe('done')
    const done = (await store.operations.get(id)) ?? expect.fail()
    expect(await operationOutcome(store, done)).toBe('21 moved: 21 succeeded.')
    expect(done.progress.canary).toHaveLength(3)
    expect((await store.groups.get(group))?.life).toMatchObject({ state: 'fixed', release: '1.8.0' })
    await fixed.stop()
    await store.close()
  }, 120_000)
})

/** Waits until a worker has renewed its lease this many times. */
async function beats(store: StoreContract, name: string, count: number): Promise<void> {
  const seen = new Set<number>()
  const look = async () => {
    const until = (await store.workers()).find(worker => worker.name === name)?.until
    if (until !== undefined) seen.add(until)
    return seen.size
  }
  await expect.poll(look, { ...PATIENCE, interval: 20 }).toBeGreaterThan(count)
}

it('an option that is refused leaves the group as it was', async () => {
  const store = new MemoryStore()
  await deadLetters(store, [{ id: 'a' }])
  const group = (await store.get('a'))?.group ?? ''
  const fix = { release: '1.8.0', who: 'ada', perSecond: -1 }
  await expect(redriveWhenFixed(store, group, fix)).rejects.toThrow(OptionError)
  expect((await store.groups.get(group))?.life.state).toBe('new')
})
