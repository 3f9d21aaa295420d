import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { verify } from '../../src/operate/index.js'
import { TaskQueue, Worker } from '../../src/task/index.js'
import { freshDatabase } from '../services/fresh-database.js'
import { Child } from './child-process.js'
import { countEffects, createEffects, type Transaction } from './effects.js'
import { deadOf, jointTask, KILLER } from './joint-tasks.js'
import { openStore } from './open-store.js'
import { diceOf } from './seed.js'

const COUNT = 600
const LEASE = '1s'
const dice = diceOf('kill -9 of workers amid joint calls')

describe.each(['sqlite', 'postgres'])('on %s, tasks that are called together', database => {
  async function scene(payloads: readonly number[], losses: number) {
    const url = database === 'sqlite' ? sqliteUrl() : await freshDatabase()
    const store = await openStore(url)
    onTestFinished(() => store.close())
    await store.once('table', (tx: Transaction) => createEffects(tx))
    const task = jointTask(losses)
    const items = payloads.map(n => ({ payload: n, id: `t${n}`, key: `k${n % 3}` }))
    await new TaskQueue(store).enqueueMany(task, items)
    const start = async () => {
      const child = new Child('joint-child.ts', { url, lease: LEASE, losses })
      await child.ready
      return child
    }
    const left = async () => {
      const { waiting, running } = await store.count({})
      return waiting + running
    }
    const effects = async () => {
      const rows = await store.once(crypto.randomUUID(), (tx: Transaction) => countEffects(tx))
      return rows.map(({ times }) => Number(times))
    }
    return { store, task, start, left, effects }
  }

  it('are neither lost nor run twice, however often their workers are killed', { timeout: 120_000 }, async () => {
    const { store, task, start, left, effects } = await scene(
      Array.from({ length: COUNT }, (_, n) => n),
      1000,
    )
    for (let kill = 0; kill < 4; kill++) {
      const child = await start()
      await sleep(dice.between(0, 150))
      await child.kill()
    }
    const worker = new Worker(store, { tasks: [task], lease: LEASE })
    await worker.start()
    await vi.waitUntil(async () => (await left()) === 0, { timeout: 60_000, interval: 50 })
    await worker.stop()
    const dead = deadOf(COUNT)
    expect(await store.count({})).toMatchObject({ succeeded: COUNT - dead, dead, skipped: 0, cancelled: 0 })
    expect(await effects()).toEqual(Array(COUNT - dead).fill(1))
    expect((await verify(store)).discrepancies).toEqual([])
    const ledgers = await Promise.all(['t0', 't1', 't2', 't3'].map(id => store.ledger(id)))
    const attempts = ledgers.map(rows => rows.filter(({ outcome }) => outcome !== 'lost'))
    expect(attempts.map(rows => rows.at(-1)?.outcome)).toEqual(['dead', 'dead', 'succeeded', 'succeeded'])
    expect(attempts.flat().filter(({ call }) => call === undefined)).toEqual([])
  })

  it('survive one of them that kills its worker', { timeout: 120_000 }, async () => {
    const { store, start, left, effects } = await scene([3, 4, 5, KILLER, 6, 7, 8], 3)
    for (let workers = 0; workers < 8 && (await left()) > 0; workers++) {
      const child = await start()
      await vi.waitUntil(async () => child.isOver || (await left()) === 0, { timeout: 30_000, interval: 20 })
      await child.kill()
    }
    expect(await store.count({})).toMatchObject({ succeeded: 6, dead: 1 })
    expect(await store.get(`t${KILLER}`)).toMatchObject({ status: 'dead', reason: 'losses_exhausted', losses: 3 })
    expect(await effects()).toEqual(Array(6).fill(1))
  })
})

function sqliteUrl(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-joint-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}
