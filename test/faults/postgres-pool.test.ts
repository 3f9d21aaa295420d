import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from './accounts.js'
import { ownPostgres } from './own-postgres.js'
import { LEASE_MS, Scene } from './scene.js'
import { diceOf } from './seed.js'

const CONNECTIONS = 3

const dice = diceOf('a pool without connections')
const postgres = ownPostgres()
let scene: Scene
beforeEach(async () => {
  scene = await Scene.on(await postgres.server.createDatabase())
})
afterEach(() => scene.close())

/** Tasks of all sorts, and among them some that take all connections of their worker’s pool for longer than its lease. */
async function addHoarders(): Promise<void> {
  for (let hoarder = 0; hoarder < 3; hoarder++) {
    const payloads = Array.from({ length: 10 }, () => ({ ms: dice.between(0, 10), failures: dice.pick([0, 0, 1]) }))
    await scene.addMany(dice.pick([scene.tasks.write, scene.tasks.complete]), payloads)
    await scene.add(scene.tasks.hoard, { ms: dice.between(LEASE_MS, 2 * LEASE_MS) })
  }
}

describe('a worker on a pool that its handlers have emptied', { timeout: 300_000 }, () => {
  it('waits for a connection, and loses nothing if nobody else wants its tasks', async () => {
    const worker = scene.start({ poolSize: CONNECTIONS, concurrency: 2 })
    await worker.ready
    await addHoarders()
    await expectAllAccountedFor(scene)
    expect(await worker.stop()).toMatchObject({ stale: 0 })
    expect(await scene.store.count({})).toMatchObject({ succeeded: scene.accepted.size })
  })

  it('may lose tasks to another, and no write is doubled', async () => {
    const workers = [scene.start({ poolSize: CONNECTIONS, concurrency: 2 }), scene.start({ poolSize: CONNECTIONS })]
    await Promise.all(workers.map(({ ready }) => ready))
    await addHoarders()
    await expectAllAccountedFor(scene)
    for (const worker of workers) {
      expect(worker.isOver, worker.errors).toBe(false)
      await worker.stop()
    }
  })
})
