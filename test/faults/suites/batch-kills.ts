import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished, vi } from 'vitest'
import { TaskQueue, Worker } from '../../../src/task/index.js'
import { freshDatabase } from '../../services/fresh-database.js'
import { batchTasks, expected, members } from '../batch-tasks.js'
import { Child } from '../child-process.js'
import { openStore } from '../open-store.js'
import type { Dice } from '../seed.js'

/** How often processes are killed, and how large the batch is. */
interface BatchKills {
  readonly database: 'sqlite' | 'postgres'
  readonly dice: Dice
  readonly count: number
  readonly kills: number
}

const LEASE = '1s'
const BY = { who: 'ada', why: 'fixed' }

/** Kills producers and workers of a batch at random, and counts how often its end was told. */
export function batchKills({ database, dice, count, kills }: BatchKills): void {
  it(`on ${database}, a batch of ${count} ends once, however often its producers and workers are killed`, {
    timeout: 60_000 + count * 5 + kills * 10_000,
  }, async () => {
    const url = database === 'sqlite' ? sqliteUrl() : await freshDatabase()
    const store = await openStore(url)
    onTestFinished(() => store.close())
    const options = { url, name: 'b', count, lease: LEASE, isProducer: true }
    for (let kill = 0; kill < kills; kill++) {
      const children = [new Child('batch-child.ts', options), new Child('batch-child.ts', options)]
      await Promise.all(children.map(({ ready }) => ready))
      await sleep(dice.between(0, 1000))
      await Promise.all(children.map(child => child.kill()))
    }
    const { work, grow, report } = batchTasks()
    const queue = new TaskQueue(store)
    const worker = new Worker(store, { tasks: [work, grow, report], lease: LEASE, concurrency: 50 })
    await worker.start()
    const onEnd = { task: report }
    await queue.enqueueBatch('b', work, members(count), { onEnd })
    const { total, dead } = expected(count)
    const within = { timeout: 60_000 + count * 5, interval: 50 }
    const endOf = async (n: number) => {
      const { batch, status, counts, ending } = await queue.result(`batch-end:b:${n}`, { task: report })
      return { batch, status, counts, ending }
    }
    await vi.waitUntil(async () => ((await store.batches.get('b'))?.endings ?? 0) > 0, within)
    // Workers that died three times at a task have made it a dead letter.
    const lost = (await store.count({ kind: 'grow' })).dead
    const first = await endOf(1)
    expect(first).toMatchObject({ batch: 'b', status: 'partial_success', ending: 1 })
    const { succeeded, cancelled } = first.counts
    expect({ sum: succeeded + first.counts.dead, cancelled }).toEqual({ sum: total, cancelled: 0 })
    expect(first.counts.dead).toBeGreaterThanOrEqual(dead + lost)

    // A redrive opens it once more.
    await queue.redrive('batch:b:000000000000', BY)
    await vi.waitUntil(async () => (await store.batches.get('b'))?.endings === 2, within)
    expect(await endOf(2)).toEqual({ ...first, ending: 2 })
    await worker.stop()
    expect(await store.get('batch-end:b:3')).toBeUndefined()
    expect((await store.count({ kind: 'report' })).succeeded).toBe(2)
  })
}

function sqliteUrl(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-batch-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}
