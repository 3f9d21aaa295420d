import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from '../accounts.js'
import { LEASE_MS, type Scene, until } from '../scene.js'

/** Longer than a busy machine keeps a worker from its heartbeat: here nobody who lives is to be taken for dead. */
const LONG_LEASE_MS = 1500

/** The end of a task that kills every worker. */
const KILLER = { status: 'dead', reason: 'losses_exhausted', attempts: 0, losses: 3 }

/** Cases of handlers that harm their worker. */
export function handlerFaults(openScene: () => Promise<Scene>): void {
  let scene: Scene
  let isOver: boolean
  beforeEach(async () => {
    scene = await openScene()
    isOver = false
  })
  afterEach(async () => {
    isOver = true
    await scene.close()
  })

  const outcomes = async (id: string) => (await scene.store.ledger(id)).map(({ outcome }) => outcome)
  const startsOf = (id: string) => scene.starts().filter(start => start.id === id)
  /** The workers that a task was lost with, one for each loss. */
  const lostWith = async (id: string) =>
    (await scene.store.ledger(id)).filter(({ outcome }) => outcome === 'lost').map(({ worker }) => worker)

  /** A worker that is started again whenever it has ended, as a process manager does. */
  async function keepRunning(leaseMs = LEASE_MS): Promise<void> {
    while (!isOver) await scene.start({ leaseMs }).ended
  }

  describe('a handler', { timeout: 300_000 }, () => {
    it('may outlive its lease: its worker’s heartbeat keeps the task', async () => {
      const workers = [scene.start({ leaseMs: LONG_LEASE_MS }), scene.start({ leaseMs: LONG_LEASE_MS })]
      await Promise.all(workers.map(({ ready }) => ready))
      const id = await scene.add(scene.tasks.slow, { ms: 2 * LONG_LEASE_MS })
      await expectAllAccountedFor(scene)
      expect(await outcomes(id)).toEqual(['succeeded'])
      expect(await scene.effects()).toEqual(new Map([[id, 1]]))
    })

    it('that blocks the event loop beyond the lease loses its task, and its neighbours theirs, but nothing is doubled', async () => {
      const blocked = scene.start()
      await blocked.ready
      const neighbour = await scene.add(scene.tasks.slow, { ms: 4 * LEASE_MS })
      const id = await scene.add(scene.tasks.block, { file: 'go' })
      await until('it blocks', () => startsOf(id).length === 1)
      const heir = scene.start()
      await until('the heir has done both', async () => (await scene.store.count({})).succeeded === 2)
      writeFileSync(join(scene.folder, 'go'), '')
      await expectAllAccountedFor(scene)
      expect(await blocked.stop()).toMatchObject({ stale: 2 })
      await heir.stop()
      expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
      expect(await outcomes(neighbour)).toEqual(['lost', 'succeeded'])
      expect(await scene.effects()).toEqual(
        new Map([
          [id, 1],
          [neighbour, 1],
        ]),
      )
    })

    it('that blocks the only worker there is loses nothing', async () => {
      const worker = scene.start()
      const id = await scene.add(scene.tasks.block, { ms: 3 * LEASE_MS })
      await expectAllAccountedFor(scene)
      expect(await worker.stop()).toMatchObject({ stale: 0 })
      expect(await outcomes(id)).toEqual(['succeeded'])
    })

    it.each([0, 1])('that calls process.exit(%d) is dead after its losses, and the others are done', async code => {
      const id = await scene.add(scene.tasks.exit, { code })
      const others = await scene.addMany(scene.tasks.write, Array(20).fill({ ms: 10 }))
      void keepRunning()
      await expectAllAccountedFor(scene)
      expect(await scene.store.get(id)).toMatchObject(KILLER)
      expect(await outcomes(id)).toEqual(['lost', 'lost', 'lost'])
      expect(startsOf(id).map(({ attempt }) => attempt)).toEqual([1, 1, 1])
      expect(await scene.store.count({})).toMatchObject({ succeeded: others.length, dead: 1 })
    })

    it('that kills its worker every time is dead after its losses, and harms only those beside its first two deaths', async () => {
      const others = await scene.addMany(scene.tasks.write, Array(40).fill({ ms: 20 }))
      const id = await scene.add(scene.tasks.kill, { ms: 30 }, { priority: 1 })
      const more = await scene.addMany(scene.tasks.write, Array(40).fill({ ms: 20 }))
      void keepRunning(LONG_LEASE_MS)
      void keepRunning(LONG_LEASE_MS)
      await expectAllAccountedFor(scene)
      expect(await scene.store.get(id)).toMatchObject(KILLER)
      expect(await outcomes(id)).toEqual(['lost', 'lost', 'lost'])
      const besides = (await lostWith(id)).slice(0, 2)
      for (const other of [...others, ...more]) {
        expect(await scene.store.get(other)).toMatchObject({ status: 'succeeded' })
        // Claimed is enough: its answer may have been on its way when the worker died.
        expect(besides, 'a neighbour').toEqual(expect.arrayContaining(await lostWith(other)))
      }
    })

    it('that kills its worker again after a redrive still runs alone, and is dead at once', async () => {
      const id = await scene.add(scene.tasks.kill, { ms: 30 })
      void keepRunning()
      await until('it is dead', async () => (await scene.store.get(id))?.status === 'dead')
      await scene.addMany(scene.tasks.write, Array(20).fill({ ms: 20 }))
      expect(await scene.store.redrive([id], { who: 'test' })).toEqual([id])
      await scene.drained()
      scene.accepted.delete(id)
      await expectAllAccountedFor(scene)
      expect(await outcomes(id)).toEqual(['lost', 'lost', 'lost', 'redriven', 'lost'])
      for (const other of scene.accepted.keys()) expect(await outcomes(other)).toEqual(['succeeded'])
    })

    it('whose worker is killed runs again, even if it had one attempt, and beside all that were lost with it', async () => {
      const many = 100
      const victim = scene.start({ concurrency: many, leaseMs: LONG_LEASE_MS })
      const ids = await scene.addMany(scene.tasks.single, Array(many).fill({}))
      await until('all of them run', () => scene.starts().length === many)
      await victim.kill()
      // They end only when all of them have been started again: one after the other, they never would.
      scene.start({ concurrency: many, leaseMs: LONG_LEASE_MS })
      await until('all of them run again, side by side', () => scene.starts().length === 2 * many)
      writeFileSync(join(scene.folder, 'go'), '')
      await expectAllAccountedFor(scene)
      expect(await scene.store.count({})).toMatchObject({ succeeded: many })
      for (const id of ids) expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
    })

    it('may end in other ways: skipped, or called later, at no cost', async () => {
      const skipped = await scene.add(scene.tasks.other, { what: 'skip' })
      const called = await scene.add(scene.tasks.other, { what: 'later' })
      scene.start()
      await expectAllAccountedFor(scene)
      expect(await outcomes(skipped)).toEqual(['skipped'])
      expect(await outcomes(called)).toEqual(['later', 'succeeded'])
    })
  })
}
