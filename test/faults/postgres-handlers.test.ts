import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TaskDefinition } from 'redrive/task'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from './accounts.js'
import { ownPostgres } from './own-postgres.js'
import { LEASE_MS, Scene, until } from './scene.js'
import { diceOf } from './seed.js'
import { handlerFaults } from './suites/handlers.js'
import { zombieFaults } from './suites/zombie.js'

const dice = diceOf('handlers and SIGSTOP on PostgreSQL')
const postgres = ownPostgres()
const openScene = async () => Scene.on(await postgres.server.createDatabase())

handlerFaults(openScene)
zombieFaults(openScene, dice)

describe('a worker that stood still for longer than its lease', { timeout: 300_000 }, () => {
  let scene: Scene
  beforeEach(async () => {
    scene = await openScene()
  })
  afterEach(() => scene.close())

  const outcomes = async (id: string) => (await scene.store.ledger(id)).map(({ outcome }) => outcome)

  const touch = (name: string) => writeFileSync(join(scene.folder, name), '')

  async function frozenWith<P>(task: TaskDefinition<P>, payload: P, isUnderWay: () => boolean) {
    const zombie = scene.start()
    await zombie.ready
    const id = await scene.add(task, payload)
    await until('it is under way', isUnderWay)
    zombie.freeze()
    const thaw = () => {
      touch('go')
      zombie.thaw()
    }
    return { id, zombie, thaw }
  }

  const hasStarted = () => scene.starts().length === 1

  it('cannot complete in its own transaction what another has done: what it wrote there is rolled back', async () => {
    const { id, zombie, thaw } = await frozenWith(scene.tasks.complete, { files: ['go'] }, hasStarted)
    const heir = scene.start()
    await until('the heir has done it', async () => (await scene.store.get(id))?.status === 'succeeded')
    thaw()
    expect(await zombie.stop()).toMatchObject({ stale: 1 })
    await heir.stop()
    await expectAllAccountedFor(scene)
    expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
    expect(await scene.effects()).toEqual(new Map([[id, 1]]))
  })

  it('cannot complete in its own transaction what another is at: what it wrote there is rolled back', async () => {
    const files = ['go', 'heir-may-go']
    const { id, zombie, thaw } = await frozenWith(scene.tasks.complete, { files }, hasStarted)
    // It is not to be taken for dead in its turn, however busy the machine is.
    const heir = scene.start({ leaseMs: 3000 })
    await until('the heir is at it', () => scene.starts().length === 2)
    thaw()
    expect(await zombie.stop()).toMatchObject({ stale: 1 })
    expect(await scene.store.get(id)).toMatchObject({ status: 'running' })
    expect(await scene.effects()).toEqual(new Map())
    touch('heir-may-go')
    await expectAllAccountedFor(scene)
    expect(await heir.stop()).toMatchObject({ stale: 0 })
    expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
    expect(await scene.effects()).toEqual(new Map([[id, 1]]))
  })

  it('in the middle of a `once` keeps its task for as long: nobody writes beside it', async () => {
    const isWithin = () => scene.lines('held.log').length === 1
    const { id, thaw } = await frozenWith(scene.tasks.hold, {}, isWithin)
    const heir = scene.start()
    await heir.ready
    await sleep(3 * LEASE_MS)
    expect(scene.starts()).toHaveLength(1)
    thaw()
    await expectAllAccountedFor(scene)
    expect(scene.lines('held.log')).toEqual([id])
    expect(await scene.effects()).toEqual(new Map([[id, 1]]))
  })
})
