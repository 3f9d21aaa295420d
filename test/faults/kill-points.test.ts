import { describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from './accounts.js'
import { POINTS, type Point } from './deadly-store.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'

const TASKS = 12
const dice = diceOf('kill -9 at each point')
const cases = POINTS.map(point => ({ point, time: dice.between(1, 3) }))

/** Where a worker has nothing yet, it can lose nothing. */
const isBeforeAnyClaim = (point: Point, time: number) =>
  time === 1 && (point === 'claim: called' || point === 'claim: in its transaction' || point.startsWith('heartbeat'))

describe('a worker that is killed', { timeout: 60_000 }, () => {
  it.concurrent.for(cases)('at $point (visit $time): its work is done by the next', async dieAt => {
    const scene = await Scene.open()
    try {
      await scene.addMany(
        scene.tasks.write,
        Array.from({ length: TASKS }, (_, index) => ({ ms: 5, failures: index % 3 })),
      )
      // Longer than the work takes, so that a beat finds some under way.
      if (dieAt.point.startsWith('heartbeat')) await scene.add(scene.tasks.slow, { ms: 1000 }, { priority: 1 })
      const victim = scene.start({ dieAt })
      expect(await victim.ended).toEqual({ code: null, signal: 'SIGKILL' })

      const heir = scene.start()
      await expectAllAccountedFor(scene)
      expect(await heir.stop()).toMatchObject({ stale: 0 })
      expect(await scene.store.count({})).toMatchObject({ succeeded: scene.accepted.size })
      const lost = (await Promise.all([...scene.accepted.keys()].map(id => scene.store.ledger(id))))
        .flat()
        .filter(({ outcome }) => outcome === 'lost').length
      if (isBeforeAnyClaim(dieAt.point, dieAt.time)) expect(lost).toBe(0)
      else expect(lost, 'never more than it had claimed').toBeLessThanOrEqual(4)
    } finally {
      await scene.close()
    }
  })
})
