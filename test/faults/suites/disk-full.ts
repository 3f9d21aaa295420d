import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { StoreFullError } from 'redrive/store'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Settlement } from '../../../src/store/internal.js'
import { checkInvariants } from '../../conformance/invariants.js'
import { expectAllAccountedFor } from '../accounts.js'
import { LEASE_MS, type Scene, until } from '../scene.js'
import type { diceOf } from '../seed.js'
import type { SmallDisk } from '../small-disk.js'

/** The store and the disk under test. */
export interface DiskFullOptions {
  readonly disk: SmallDisk
  readonly dice: ReturnType<typeof diceOf>
  /** A scene whose store is on that disk. */
  readonly openScene: () => Promise<Scene>
}

/** A text that no database makes smaller. */
const noise = (length: number) => randomBytes(length).toString('base64').slice(0, length)

export function diskFullFaults({ disk, dice, openScene }: DiskFullOptions): void {
  describe.skipIf(!disk.isMounted)('a disk without room', { timeout: 300_000 }, () => {
    let scene: Scene
    beforeEach(async () => {
      scene = await openScene()
    }, 120_000)
    afterEach(async () => {
      disk.makeRoom()
      await scene.close()
    })

    const big = () => ({ ms: 0, filler: noise(dice.between(20_000, 60_000)) })

    it('refuses to enqueue with a clear error, writes nothing of it, and takes it once there is room', async () => {
      disk.fillUp()
      let refused = 0
      for (let call = 0; call < 40; call++) {
        const before = await scene.store.count({})
        const adding = scene.addMany(scene.tasks.write, Array.from({ length: dice.between(1, 5) }, big))
        await adding.catch(async error => {
          refused++
          expect(error).toBeInstanceOf(StoreFullError)
          expect(error).toMatchObject({
            code: 'store_full',
            message: expect.stringContaining('has no space left'),
          })
          expect(await scene.store.count({}), 'nothing was written').toEqual(before)
        })
      }
      expect(refused).toBeGreaterThan(30)
      await checkInvariants(scene.store)

      disk.makeRoom()
      await scene.addMany(scene.tasks.write, [big(), big()])
      scene.start()
      await expectAllAccountedFor(scene)
    })

    it('fails all who share the transaction, and none of them half', async () => {
      disk.fillUp()
      const calls = Array.from({ length: 10 }, () => scene.addMany(scene.tasks.write, [big(), big(), big()]))
      const results = await Promise.allSettled(calls)
      expect(results.some(({ status }) => status === 'rejected')).toBe(true)
      expect((await scene.store.count({})).waiting).toBe(scene.accepted.size)
      await checkInvariants(scene.store)
      disk.makeRoom()
      scene.start()
      await expectAllAccountedFor(scene)
    })

    it('refuses to settle with a clear error: the task still runs, and is settled once there is room', async () => {
      const ids = await scene.addMany(scene.tasks.echo, [1, 2, 3])
      const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['echo'] }], limit: 10, isIdle: true }
      const { tasks, now } = await scene.store.claim(request)
      const settlements = tasks.map(
        ({ id, token }): Settlement => ({
          id,
          token,
          outcome: { type: 'succeeded', result: JSON.stringify(noise(300_000)) },
          attempt: { attempt: 1, startedAt: now, endedAt: now, worker: 'w' },
        }),
      )
      disk.fillUp()
      await expect(scene.store.settle(settlements)).rejects.toBeInstanceOf(StoreFullError)
      expect(await scene.store.count({})).toMatchObject({ running: 3, succeeded: 0 })
      for (const id of ids) expect(await scene.store.ledger(id)).toEqual([])
      await checkInvariants(scene.store)

      disk.makeRoom()
      expect(await scene.store.settle(settlements)).toEqual([
        { result: 'settled' },
        { result: 'settled' },
        { result: 'settled' },
      ])
      await expectAllAccountedFor(scene)
    })

    it('makes a worker wait with what it has done, and do it no second time', async () => {
      const worker = scene.start({ concurrency: 2 })
      await worker.ready
      const ids = await scene.addMany(
        scene.tasks.echo,
        Array.from({ length: 12 }, () => noise(200_000)),
      )
      disk.fillUp()
      await sleep(2 * LEASE_MS)
      expect(worker.isOver, worker.errors).toBe(false)
      disk.makeRoom()
      await expectAllAccountedFor(scene)
      await worker.stop()
      const starts = scene.starts().map(({ id }) => id)
      expect(starts.sort()).toEqual([...ids].sort())
    })

    it('that fills and empties while work goes on loses nothing', async () => {
      const workers = [scene.start(), scene.start()]
      await Promise.all(workers.map(({ ready }) => ready))
      let refused = 0
      for (let round = 0; round < 6; round++) {
        for (let call = 0; call < 4; call++) {
          await scene.addMany(scene.tasks.write, [big(), { ms: 5, failures: 1 }]).catch(error => {
            expect(error).toBeInstanceOf(StoreFullError)
            refused++
          })
        }
        if (round % 2 === 0) disk.fillUp()
        await sleep(dice.between(50, LEASE_MS))
        if (round % 2 === 1) disk.makeRoom()
      }
      disk.makeRoom()
      await until('there is room again', async () =>
        scene.addMany(scene.tasks.write, [{ ms: 0 }]).then(
          () => true,
          () => false,
        ),
      )
      await expectAllAccountedFor(scene)
      for (const worker of workers) expect(worker.isOver, worker.errors).toBe(false)
      process.stdout.write(`[faults] a disk that fills and empties: ${refused} calls were refused\n`)
    })
  })
}
