import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from '../accounts.js'
import type { Child } from '../child-process.js'
import { LEASE_MS, type Scene, until } from '../scene.js'
import type { Dice } from '../seed.js'

/** Of a worker that is not to be taken for dead, however busy the machine is. */
const HEIR = { leaseMs: 3000 }

/** Workers that stand still for longer than their lease, and go on as if nothing had happened. */
export function zombieFaults(openScene: () => Promise<Scene>, dice: Dice): void {
  let scene: Scene
  beforeEach(async () => {
    scene = await openScene()
  })
  afterEach(() => scene.close())

  const touch = (name: string) => writeFileSync(join(scene.folder, name), '')
  const told = () => scene.lines('zombie.log').map(line => JSON.parse(line))
  const outcomes = async (id: string) => (await scene.store.ledger(id)).map(({ outcome }) => outcome)

  /** At a moment when it does not have the lock of a file: nobody else could write until it goes on. */
  async function freeze(worker: Child): Promise<void> {
    for (;;) {
      worker.freeze()
      const writing = scene.store.once(crypto.randomUUID(), () => 'written')
      if ((await Promise.race([writing, sleep(500, 'locked')])) === 'written') return
      worker.thaw()
      await writing
    }
  }

  /** A worker that stands still with a task under way. */
  async function frozenWithTask(payload: { othersWaitFor?: string } = {}) {
    const zombie = scene.start()
    await zombie.ready
    const id = await scene.add(scene.tasks.zombie, payload)
    await until('it has started', () => scene.starts().length === 1)
    await freeze(zombie)
    return { id, zombie }
  }

  describe('a worker that stood still for longer than its lease', { timeout: 300_000 }, () => {
    it('is refused when another has done its task meanwhile', async () => {
      const { id, zombie } = await frozenWithTask()
      const heir = scene.start(HEIR)
      await until('the heir has done it', async () => (await scene.store.get(id))?.status === 'succeeded')
      touch('go')
      zombie.thaw()
      await until('the zombie has gone on', () => scene.lines('zombie.log').length === 2)
      expect(await zombie.stop()).toMatchObject({ stale: 1 })
      expect(await heir.stop()).toMatchObject({ stale: 0 })
      await expectAllAccountedFor(scene)
      expect(told()).toEqual([
        [2, '', '', ''],
        // The zombie may read what its heir wrote under the key that both share.
        [1, 'lease_lost', 'stale_fence', ''],
      ])
      expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
      // One under the key that both share, and one under the heir's own.
      expect(await scene.effects()).toEqual(new Map([[id, 2]]))
    })

    it('is refused while another runs its task', async () => {
      const { id, zombie } = await frozenWithTask({ othersWaitFor: 'heir-may-go' })
      const heir = scene.start(HEIR)
      await until('the heir runs it', () => scene.lines('starts.log').length === 2)
      touch('go')
      zombie.thaw()
      await until('the zombie has gone on', () => scene.lines('zombie.log').length === 1)
      expect(await zombie.stop()).toMatchObject({ stale: 1 })
      expect(await scene.store.get(id)).toMatchObject({ status: 'running' })
      touch('heir-may-go')
      await expectAllAccountedFor(scene)
      expect(await heir.stop()).toMatchObject({ stale: 0 })
      expect(told()).toEqual([
        [1, 'lease_lost', 'stale_fence', 'stale_fence'],
        [2, '', '', ''],
      ])
      expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
      expect(await scene.effects()).toEqual(new Map([[id, 2]]))
    })

    it('hands its task back as lost when nobody has asked for it, and does it again', async () => {
      const { id, zombie } = await frozenWithTask()
      await sleep(2 * LEASE_MS)
      touch('go')
      zombie.thaw()
      await expectAllAccountedFor(scene)
      expect(await zombie.stop()).toMatchObject({ stale: 0 })
      expect(told()).toEqual([
        [1, 'lease_lost', '', ''],
        [2, '', '', ''],
      ])
      // One under the key that both attempts share, and one under the key of each.
      expect(await scene.effects()).toEqual(new Map([[id, 3]]))
      expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
    })
  })

  describe('workers that stand still at random moments', { timeout: 300_000 }, () => {
    it('cost losses, but no work is lost and no write is doubled', async () => {
      const workers = [scene.start(), scene.start(), scene.start()]
      await Promise.all(workers.map(({ ready }) => ready))
      let isOver = false
      const keepEnqueueing = async () => {
        while (!isOver) {
          const payloads = Array.from({ length: 3 }, () => ({
            ms: dice.between(0, 20),
            failures: dice.pick([0, 0, 1]),
          }))
          await scene.addMany(scene.tasks.write, payloads)
          await sleep(dice.between(10, 60))
        }
      }
      const enqueueing = keepEnqueueing()
      for (let round = 0; round < 8; round++) {
        const worker = dice.pick(workers)
        worker.freeze()
        // Some come back in time, most do not.
        await sleep(dice.between(LEASE_MS / 2, 2 * LEASE_MS))
        worker.thaw()
        await sleep(dice.between(0, 50))
      }
      isOver = true
      await enqueueing
      await expectAllAccountedFor(scene)
      const reports = await Promise.all(workers.map(worker => worker.stop()))
      const stale = reports.reduce((sum, report) => sum + report.stale, 0)
      process.stdout.write(`[faults] 8 stops among 3 workers: ${stale} settlements were refused\n`)
    })
  })
}
