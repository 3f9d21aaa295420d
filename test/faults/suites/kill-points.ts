import { describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from '../accounts.js'
import { POINTS, type Point } from '../deadly-store.js'
import type { Scene } from '../scene.js'
import type { Dice } from '../seed.js'

const TASKS = 12
const CONCURRENCY = 4

export interface KillPoints {
  readonly openScene: () => Promise<Scene>
  readonly dice: Dice
  /** Whether a call ends with the process that made it. A server finishes what it was asked to do, whoever is gone. */
  readonly endsWithProcess: boolean
}

/** Workers that are killed at each point in the life of a task. */
export function killPointFaults({ openScene, dice, endsWithProcess }: KillPoints): void {
  const cases = POINTS.map(point => ({ point, time: dice.between(1, 3) }))
  /** Where a worker has nothing yet, it can lose nothing. */
  const isBeforeAnyClaim = (point: Point, time: number) =>
    time === 1 && (point === 'claim: called' || point.startsWith('heartbeat'))
  /** A server may be told of the next claim before it is told what has ended. */
  const mostHeld = endsWithProcess ? CONCURRENCY : 2 * CONCURRENCY

  describe('a worker that is killed', { timeout: 300_000 }, () => {
    it.concurrent.for(cases)('at $point (visit $time): its work is done by the next', async dieAt => {
      const scene = await openScene()
      try {
        await scene.addMany(
          scene.tasks.write,
          Array.from({ length: TASKS }, (_, index) => ({ ms: 5, failures: index % 3 })),
        )
        // Longer than the work takes, so that a beat finds some under way.
        if (dieAt.point.startsWith('heartbeat')) await scene.add(scene.tasks.slow, { ms: 1000 }, { priority: 1 })
        const victim = scene.start({ name: 'victim', dieAt, concurrency: CONCURRENCY })
        expect(await victim.ended).toEqual({ code: null, signal: 'SIGKILL' })

        const heir = scene.start()
        await expectAllAccountedFor(scene)
        expect(await heir.stop()).toMatchObject({ stale: 0 })
        expect(await scene.store.count({})).toMatchObject({ succeeded: scene.accepted.size })
        const lost = (await Promise.all([...scene.accepted.keys()].map(id => scene.store.ledger(id))))
          .flat()
          .filter(({ outcome, worker }) => outcome === 'lost' && worker === 'victim').length
        if (isBeforeAnyClaim(dieAt.point, dieAt.time)) expect(lost).toBe(0)
        else expect(lost, 'never more than it had claimed').toBeLessThanOrEqual(mostHeld)
      } finally {
        await scene.close()
      }
    })
  })
}
