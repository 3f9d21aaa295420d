import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { allTasks } from '../conformance/invariants.js'
import { expectAllAccountedFor } from './accounts.js'
import { ownPostgres } from './own-postgres.js'
import { LEASE_MS, Scene, until } from './scene.js'
import { diceOf } from './seed.js'

const HOUR_MS = 3_600_000
const AHEAD = { clockShiftMs: HOUR_MS }
const BEHIND = { clockShiftMs: -HOUR_MS }

const dice = diceOf('clocks an hour off')
const postgres = ownPostgres()
let scene: Scene
beforeEach(async () => {
  scene = await Scene.on(await postgres.server.createDatabase())
})
afterEach(() => scene.close())

const outcomes = async (id: string) => (await scene.store.ledger(id)).map(({ outcome }) => outcome)

describe('workers whose clocks are an hour ahead and an hour behind', { timeout: 300_000 }, () => {
  it('do all that is due and nothing that is not, and leave each other’s tasks alone', async () => {
    const before = await scene.store.now()
    const workers = [AHEAD, BEHIND, AHEAD, BEHIND].map(options => scene.start({ ...options, leaseMs: 2000 }))
    await Promise.all(workers.map(({ ready }) => ready))
    const notYet = await scene.add(scene.tasks.write, {}, { runAt: before + HOUR_MS / 2 })
    const long = await Promise.all(workers.map(() => scene.add(scene.tasks.slow, { ms: 4000 })))
    await scene.addMany(
      scene.tasks.write,
      Array.from({ length: 30 }, () => ({ ms: dice.between(0, 10), failures: dice.pick([0, 1, 2]) })),
    )
    const later = await scene.add(scene.tasks.other, { what: 'later' })
    await scene.add(scene.tasks.echo, 1, { delay: '50ms' })
    await until('all else is done', async () => {
      const { waiting, running } = await scene.store.count({})
      return waiting === 1 && running === 0
    })
    expect(await scene.store.get(notYet)).toMatchObject({ status: 'waiting' })
    expect(await scene.store.cancel([notYet])).toEqual([notYet])
    scene.accepted.delete(notYet)

    await expectAllAccountedFor(scene)
    expect(await outcomes(later)).toEqual(['later', 'succeeded'])
    for (const id of long) expect(await outcomes(id)).toEqual(['succeeded'])
    const after = await scene.store.now()
    for (const { id, changedAt } of await allTasks(scene.store)) {
      const times = (await scene.store.ledger(id)).flatMap(({ startedAt, endedAt }) => [startedAt, endedAt])
      for (const time of [changedAt, ...times]) {
        expect(time).toBeGreaterThanOrEqual(before)
        expect(time).toBeLessThanOrEqual(after)
      }
    }
  })

  it.each([
    { dead: AHEAD, heir: BEHIND },
    { dead: BEHIND, heir: AHEAD },
  ])('take over from each other: from $dead by $heir', async ({ dead, heir }) => {
    const victim = scene.start(dead)
    await victim.ready
    const id = await scene.add(scene.tasks.slow, { ms: 2 * LEASE_MS })
    await until('it has started', () => scene.starts().length === 1)
    await victim.kill()
    scene.start(heir)
    await expectAllAccountedFor(scene)
    expect(await outcomes(id)).toEqual(['lost', 'succeeded'])
  })
})
