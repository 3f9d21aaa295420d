import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from '../accounts.js'
import { LEASE_MS, type Scene, until } from '../scene.js'

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
  const lossesOf = async (id: string) => (await outcomes(id)).filter(outcome => outcome === 'lost').length
  const startsOf = (id: string) => scene.starts().filter(start => start.id === id)
  /** The tasks that a process which died of a task had under way when that one began, or started later. */
  const besidesFirst = (id: string) => {
    const first = startsOf(id)[0]?.pid
    return new Set(
      scene
        .starts()
        .filter(({ pid }) => pid === first)
        .map(start => start.id),
    )
  }

  /** A worker that is started again whenever it has ended, as a process manager does. */
  async function keepRunning(): Promise<void> {
    while (!isOver) await scene.start().ended
  }

  describe('a handler', { timeout: 60_000 }, () => {
    it('may outlive its lease: its worker’s heartbeat keeps the task', async () => {
      const workers = [scene.start(), scene.start()]
      await Promise.all(workers.map(({ ready }) => ready))
      const id = await scene.add(scene.tasks.slow, { ms: 3 * LEASE_MS })
      await expectAllAccountedFor(scene)
      expect(await outcomes(id)).toEqual(['succeeded'])
      expect(await scene.effects()).toEqual(new Map([[id, 1]]))
    })

    it('that blocks the event loop beyond the lease loses its task, and its neighbours theirs, but nothing is doubled', async () => {
      const blocked = scene.start()
      await blocked.ready
      const neighbour = await scene.add(scene.tasks.slow, { ms: LEASE_MS })
      const id = await scene.add(scene.tasks.block, { ms: 4 * LEASE_MS })
      await until('it blocks', () => startsOf(id).length === 1)
      const heir = scene.start()
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
      void keepRunning()
      void keepRunning()
      await expectAllAccountedFor(scene)
      expect(await scene.store.get(id)).toMatchObject({ status: 'dead', reason: 'attempts_exhausted', losses: 3 })
      expect(await outcomes(id)).toEqual(['lost', 'lost', 'lost'])
      const beside = besidesFirst(id)
      for (const other of [...others, ...more]) {
        expect(await scene.store.get(other)).toMatchObject({ status: 'succeeded' })
        expect(await lossesOf(other), 'a neighbour').toBeLessThanOrEqual(beside.has(other) ? 1 : 0)
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
