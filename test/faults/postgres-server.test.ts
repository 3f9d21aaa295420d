import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from './accounts.js'
import { ownPostgres } from './own-postgres.js'
import { Scene, until } from './scene.js'
import { diceOf } from './seed.js'

const CRASHES = 3
const TERMINATIONS = 20
const WORKERS = 3
/** Longer than the server is away: nobody is to be taken for dead. */
const LEASE_MS = 60_000

const dice = diceOf('a PostgreSQL that crashes')
const postgres = ownPostgres()
let scene: Scene
beforeEach(async () => {
  scene = await Scene.on(await postgres.server.createDatabase())
})
afterEach(() => scene.close())

/** Does harm while work keeps coming and several processes work; then all of them must still be there, and all be done. */
async function underLoad(harm: () => Promise<void>): Promise<void> {
  const workers = Array.from({ length: WORKERS }, () => scene.start({ leaseMs: LEASE_MS }))
  await Promise.all(workers.map(({ ready }) => ready))
  let isOver = false
  const keepEnqueueing = async () => {
    while (!isOver) {
      const payloads = Array.from({ length: dice.between(1, 4) }, () => ({
        ms: dice.between(0, 15),
        failures: dice.pick([0, 0, 0, 1]),
      }))
      await scene.addSurely(dice.pick([scene.tasks.write, scene.tasks.complete]), payloads)
      await sleep(dice.between(5, 40))
    }
  }
  const enqueueing = keepEnqueueing()
  await harm()
  isOver = true
  await enqueueing
  await expectAllAccountedFor(scene)
  for (const worker of workers) {
    expect(worker.isOver, worker.errors).toBe(false)
    await worker.stop()
  }
  const ledgers = await Promise.all([...scene.accepted.keys()].map(id => scene.store.ledger(id)))
  expect(ledgers.flat().filter(({ outcome }) => outcome === 'lost')).toEqual([])
}

describe('a PostgreSQL under load', { timeout: 300_000 }, () => {
  it(`that crashes and recovers ${CRASHES} times: what was acknowledged is done, each write exists once`, async () => {
    await underLoad(async () => {
      for (let crash = 0; crash < CRASHES; crash++) {
        await sleep(dice.between(100, 600))
        await postgres.server.stop('immediate')
        await sleep(dice.between(0, 300))
        await postgres.server.start()
      }
    })
  })

  it('that ends its connections five times a second: no process dies, all is done, each write exists once', async () => {
    const admin = new Client(scene.url)
    await admin.connect()
    const ended: number[] = []
    try {
      await underLoad(async () => {
        for (let round = 0; round < TERMINATIONS; round++) {
          await sleep(200)
          const { rows } = await admin.query<{ pid: number }>(TERMINATE)
          ended.push(...rows.map(({ pid }) => pid))
        }
        await until('they are gone', async () => (await admin.query(FIND, [ended])).rowCount === 0)
      })
    } finally {
      await admin.end()
    }
    const counts = JSON.stringify(await scene.store.count({}))
    process.stdout.write(`[faults] ${ended.length} connections were ended: ${counts}\n`)
    expect(ended.length).toBeGreaterThan(TERMINATIONS)
  })
})

const TERMINATE = /* sql */ `
  SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()`

const FIND = 'SELECT FROM pg_stat_activity WHERE pid = ANY ($1)'
