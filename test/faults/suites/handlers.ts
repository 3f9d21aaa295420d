import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from '../accounts.js'
import { LEASE_MS, type Scene, until } from '../scene.js'

/** Longer than a busy machine keeps a worker from its heartbeat: here nobody who lives is to be taken for dead. */
const LONG_LEASE_MS = 1500

/** What a handler may do to its worker. */
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

  describe('a handler', { timeout: 60_000 }, () => {
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

    it.each([0, 1])('that calls process.exit(%d) is dead after its attempts, and the others are done', async code => {
      const id = await scene.add(scene.tasks.exit, { code })
      const others = await scene.addMany(scene.tasks.write, Array(20).fill({ ms: 10 }))
      void keepRunning()
      await expectAllAccountedFor(scene)
      expect(await scene.store.get(id)).toMatchObject({ status: 'dead', reason: 'attempts_exhausted', losses: 3 })
      expect(await outcomes(id)).toEqual(['lost', 'lost', 'lost'])
      expect(startsOf(id).map(({ attempt }) => attempt)).toEqual([1, 2, 3])
      expect(await scene.store.count({})).toMatchObject({ succeeded: others.length, dead: 1 })
    })

    it('that kills its worker every time is dead after its attempts, and harms only those beside its first death', async () => {
      const others = await scene.addMany(scene.tasks.write, Array(40).fill({ ms: 20 }))
      const id = await scene.add(scene.tasks.kill, { ms: 30 }, { priority: 1 })
      const more = await scene.addMany(scene.tasks.write, Array(40).fill({ ms: 20 }))
      void keepRunning(LONG_LEASE_MS)
      void keepRunning(LONG_LEASE_MS)
      await expectAllAccountedFor(scene)
      expect(await scene.store.get(id)).toMatchObject({ status: 'dead', reason: 'attempts_exhausted', losses: 3 })
      expect(await outcomes(id)).toEqual(['lost', 'lost', 'lost'])
      const [first] = await lostWith(id)
      for (const other of [...others, ...more]) {
        expect(await scene.store.get(other)).toMatchObject({ status: 'succeeded' })
        // Claimed is enough: its answer may have been on its way when the worker died.
        expect([[], [first]], 'a neighbour').toContainEqual(await lostWith(other))
      }
    })

    it('that kills its worker again after a redrive still runs alone', async () => {
      const id = await scene.add(scene.tasks.kill, { ms: 30 })
      void keepRunning()
      await until('it is dead', async () => (await scene.store.get(id))?.status === 'dead')
      await scene.addMany(scene.tasks.write, Array(20).fill({ ms: 20 }))
      expect(await scene.store.redrive([id], { who: 'test' })).toEqual([id])
      await scene.drained()
      scene.accepted.delete(id)
      await expectAllAccountedFor(scene)
      expect(await outcomes(id)).toEqual(['lost', 'lost', 'lost', 'redriven', 'lost', 'lost', 'lost'])
      for (const other of scene.accepted.keys()) expect(await outcomes(other)).toEqual(['succeeded'])
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
