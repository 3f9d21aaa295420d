import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from './accounts.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'

const PROCESSES = 8
const TASKS = 2000

diceOf('eight processes on one file')

const places = [
  { place: 'on disk', root: tmpdir() },
  { place: 'in memory', root: '/dev/shm' },
].filter(({ root }) => existsSync(root))

describe('eight processes that claim from one file', { timeout: 60_000 }, () => {
  // In memory a commit waits for no disk, so that what is left of the stalls comes from locks and a busy machine.
  it.each(places)('do each task once, and none of them loses one ($place)', async ({ place, root }) => {
    const scene = await Scene.open(mkdtempSync(join(root, 'redrive-faults-')))
    try {
      // Longer than any of them can be kept from its turn on a busy machine: here nobody is to be taken for dead.
      const workers = Array.from({ length: PROCESSES }, () => scene.start({ leaseMs: 20_000 }))
      await Promise.all(workers.map(({ ready }) => ready))
      for (let added = 0; added < TASKS; added += 50) await scene.addMany(scene.tasks.write, Array(50).fill({}))
      await expectAllAccountedFor(scene)
      const reports = await Promise.all(workers.map(worker => worker.stop()))

      const starts = scene.starts()
      expect(starts.map(({ id }) => id).sort()).toEqual([...scene.accepted.keys()].sort())
      expect(await scene.store.count({})).toMatchObject({ succeeded: TASKS })
      expect(reports.map(({ stale }) => stale)).toEqual(Array(PROCESSES).fill(0))

      const shares = workers.map(({ pid }) => starts.filter(start => start.pid === pid).length)
      const stalls = reports.map(({ stallMs }) => stallMs.toFixed(1))
      process.stdout.write(`[faults] ${PROCESSES} processes, ${place}, tasks done by each: ${shares.join(', ')}\n`)
      process.stdout.write(
        `[faults] ${PROCESSES} processes, ${place}, longest stall of each event loop: ${stalls.join(', ')} ms\n`,
      )
    } finally {
      await scene.close()
    }
  })
})
