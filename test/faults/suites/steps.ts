import { describe, expect, it } from 'vitest'
import { stepRecord } from '../../../src/store/internal.js'
import { checkInvariants } from '../../conformance/invariants.js'
import { expectAllAccountedFor } from '../accounts.js'
import { STEP_POINTS } from '../deadly-store.js'
import { type Scene, until } from '../scene.js'
import type { Dice } from '../seed.js'

const TASKS = 3

/** Nobody here is to be taken for dead who is only slow, however busy the machine is. */
const LEASE_MS = 2000

/** Workers that are killed within and between the steps of a task. */
export function stepFaults(openScene: () => Promise<Scene>, dice: Dice): void {
  const cases = STEP_POINTS.map(point => ({ point, time: dice.between(1, 3) }))

  describe('a worker that is killed', { timeout: 300_000 }, () => {
    it.for(cases)('at "$point" of a step (visit $time): no step on record runs again', async dieAt => {
      const scene = await openScene()
      try {
        const ids = await scene.addMany(scene.tasks.steps, Array(TASKS).fill({}))
        const victim = scene.start({ name: 'victim', dieAt, concurrency: 1, leaseMs: LEASE_MS })
        expect(await victim.ended).toEqual({ code: null, signal: 'SIGKILL' })
        const heir = scene.start({ concurrency: 1, leaseMs: LEASE_MS })
        await expectAllAccountedFor(scene)
        await heir.stop()

        // The effect that its worker did not live to record is made again, under the same key.
        const effects = scene.lines('steps.log')
        const keys = ids.flatMap(id => [`${id}/one`, `${id}/two`])
        expect([...new Set(effects)].sort()).toEqual([...keys].sort())
        expect(effects.length - keys.length).toBe(dieAt.point === 'step: effect' ? 1 : 0)
        // A failure on record counts, whoever waited for the next attempt.
        expect(scene.lines('failed.log').sort()).toEqual(ids.map(id => `${id}/two`).sort())
        for (const id of ids)
          expect(await scene.store.get(id)).toMatchObject({
            status: 'succeeded',
            result: '["one made","two made"]',
            attempts: 0,
          })
      } finally {
        await scene.close()
      }
    })

    const parallel = (['step: effect', 'step: committed'] as const).map(point => ({ point, time: dice.between(1, 3) }))
    it.for(parallel)('at "$point" (visit $time) of steps at the same time: none on record runs again', async dieAt => {
      const scene = await openScene()
      try {
        const id = await scene.add(scene.tasks.parallelSteps, {})
        const victim = scene.start({ name: 'victim', dieAt, leaseMs: LEASE_MS })
        expect(await victim.ended).toEqual({ code: null, signal: 'SIGKILL' })
        const done = await doneSteps(scene, id)
        const heir = scene.start({ leaseMs: LEASE_MS })
        await expectAllAccountedFor(scene)
        await heir.stop()
        expect(await scene.store.get(id)).toMatchObject({ status: 'succeeded', result: '["a","b","c"]' })
        const effects = scene.lines('steps.log')
        expect([...new Set(effects)].sort()).toEqual(['a', 'b', 'c'].map(name => `${id}/${name}`))
        for (const name of done) expect(effects.filter(key => key === `${id}/${name}`)).toHaveLength(1)
      } finally {
        await scene.close()
      }
    })

    it('between the record of a failed step and the long wait of its task: the next waits for the rest of it', async () => {
      const scene = await openScene()
      try {
        const id = await scene.add(scene.tasks.parallelSteps, { waits: true })
        const dieAt = { point: 'step: failure committed', time: 1 } as const
        const victim = scene.start({ name: 'victim', dieAt, leaseMs: LEASE_MS })
        expect(await victim.ended).toEqual({ code: null, signal: 'SIGKILL' })
        const done = await doneSteps(scene, id)
        const late = await lateStep(scene, id)
        expect(late).toMatchObject({ attempts: 1, nextAt: expect.any(Number) })
        const heir = scene.start({ leaseMs: LEASE_MS })
        const isWaiting = async () => (await scene.store.ledger(id)).at(-1)?.outcome === 'later'
        await until('its task waits for the step', isWaiting)
        await heir.stop()
        expect(await scene.store.ledger(id)).toMatchObject([
          { outcome: 'lost', worker: 'victim' },
          { outcome: 'later', notes: { step: 'late' } },
        ])
        const task = await scene.store.get(id)
        expect(task).toMatchObject({ status: 'waiting', attempts: 0 })
        // Clocks differ by a little. The step itself is what waits until the time on its record.
        expect(task?.nextAttemptAt).toBeGreaterThan((late?.nextAt ?? Infinity) - 5000)
        expect(await lateStep(scene, id)).toEqual(late)
        expect(scene.lines('failed.log')).toEqual([id])
        expect(await doneSteps(scene, id)).toEqual(new Set(['a', 'b', 'c']))
        const effects = scene.lines('steps.log')
        for (const name of done) expect(effects.filter(key => key === `${id}/${name}`)).toHaveLength(1)
        await checkInvariants(scene.store)
      } finally {
        await scene.close()
      }
    })

    it('leaves what its task had told by its last heartbeat', async () => {
      const scene = await openScene()
      try {
        const id = await scene.add(scene.tasks.noted, {})
        const victim = scene.start({ name: 'victim', leaseMs: LEASE_MS })
        const isReported = async () => (await scene.store.workers()).some(({ notes = {} }) => id in notes)
        await until('it has told of the task', isReported)
        await victim.kill()
        const heir = scene.start({ leaseMs: LEASE_MS })
        await expectAllAccountedFor(scene)
        await heir.stop()
        expect(await scene.store.ledger(id)).toMatchObject([
          {
            outcome: 'lost',
            worker: 'victim',
            notes: { progress: { fraction: 0.5, text: 'halfway' }, log: [{ text: 'run 1' }] },
          },
          { outcome: 'succeeded' },
        ])
      } finally {
        await scene.close()
      }
    })
  })

  describe('a worker that stood still for longer than its lease', { timeout: 300_000 }, () => {
    it('records no step that another has recorded, and begins no further one', async () => {
      const scene = await openScene()
      try {
        const id = await scene.add(scene.tasks.staleSteps, {})
        const zombie = scene.start({ name: 'zombie', leaseMs: LEASE_MS })
        await until('it is within a step', () => scene.lines('steps.log').length === 1)
        zombie.freeze()
        const heir = scene.start({ name: 'heir', leaseMs: LEASE_MS })
        await until('the heir has done it', async () => (await scene.store.get(id))?.status === 'succeeded')
        scene.touch('go')
        zombie.thaw()
        await until('it has been told', () => scene.lines('stale.log').length === 1)
        await zombie.stop()
        await heir.stop()
        await expectAllAccountedFor(scene)
        expect(scene.lines('stale.log')).toEqual(['lease_lost'])
        expect(scene.lines('steps.log')).toEqual(['slow 1', 'slow 2', 'next 2'])
        const steps = await scene.store.steps(id)
        expect(steps).toMatchObject([{ name: 'slow', result: '"of run 2"' }, { name: 'next' }])
        expect(await scene.store.get(id)).toMatchObject({ result: '"of run 2"' })
      } finally {
        await scene.close()
      }
    })
  })
}

/** The steps of a task whose results are on record. */
async function doneSteps({ store }: Scene, id: string): Promise<Set<string>> {
  return new Set((await store.steps(id)).flatMap(({ name, isDone }) => (isDone ? name : [])))
}

/** The record of the step that fails. */
async function lateStep({ store }: Scene, id: string) {
  return (await store.steps(id)).map(stepRecord).find(({ name }) => name === 'late')
}
