import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from '../accounts.js'
import type { Scene } from '../scene.js'
import type { Dice } from '../seed.js'

const WORKERS = 4

export interface RandomKills {
  readonly openScene: () => Promise<Scene>
  readonly dice: Dice
  readonly kills: number
}

/** Workers that are killed at many random moments. */
export function killRandomFaults({ openScene, dice, kills }: RandomKills): void {
  describe('workers that are killed at random moments', { timeout: 600_000 }, () => {
    it(`${kills} times, while work keeps coming: all of it is accounted for, and each write exists once`, async () => {
      const scene = await openScene()
      try {
        let killed = 0
        const keepKilling = async () => {
          while (killed < kills) {
            killed++
            // Every tenth enqueues too, and dies within that.
            const child = scene.start({ enqueues: killed % 10 === 0 })
            // Some are killed before they are ready: opening a store that others use is a moment like any other.
            if (dice.between(1, 8) > 1) await child.ready
            await sleep(dice.between(0, 120))
            await child.kill()
          }
        }
        const keepEnqueueing = async () => {
          while (killed < kills) {
            const payloads = Array.from({ length: dice.between(1, 5) }, () => ({
              ms: dice.between(0, 15),
              failures: dice.pick([0, 0, 0, 1, 2]),
            }))
            await scene.addMany(scene.tasks.write, payloads)
            await sleep(dice.between(20, 100))
          }
        }
        await Promise.all([...Array.from({ length: WORKERS }, keepKilling), keepEnqueueing()])
        for (let survivors = 0; survivors < WORKERS; survivors++) scene.start()
        scene.noteAccepted()
        await expectAllAccountedFor(scene)

        const counts = await scene.store.count({})
        const ledgers = await Promise.all([...scene.accepted.keys()].map(id => scene.store.ledger(id)))
        const lost = ledgers.flat().filter(({ outcome }) => outcome === 'lost').length
        process.stdout.write(`[faults] ${kills} kills, ${lost} lost attempts: ${JSON.stringify(counts)}\n`)
        expect(lost).toBeGreaterThan(0)
        expect(counts.succeeded).toBeGreaterThan(0)
      } finally {
        await scene.close()
      }
    })
  })
}
