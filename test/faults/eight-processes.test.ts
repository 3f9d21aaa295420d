import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectAllAccountedFor } from './accounts.js'
import { Scene } from './scene.js'
import { diceOf } from './seed.js'
import { canWatchSqlite, type SqliteWatch } from './sqlite-watch.js'

const PROCESSES = 8
const TASKS = 1000
/** Nobody may keep an event loop from turning for so long by holding a lock: the driver's own busy timeout is 5 s. */
const LONGEST_MS = 50
/** On a disk that others keep busy, any call may wait for a page. */
const LONGEST_ON_DISK_MS = 1000

diceOf('eight processes on one file')

const places = [
  { place: 'on disk', root: tmpdir() },
  { place: 'in memory', root: '/dev/shm' },
].filter(({ root }) => existsSync(root))

/*
 * The parts of a stall of an event loop here, as measured: waiting for a processor, up to 400 ms when four other
 * programs keep both of them busy; a commit that waits for the disk, 5 ms as a rule and seconds when others keep the disk
 * busy; and at most 2 ms in a call that met a lock. Nobody sleeps on one: every connection has a busy timeout of 0, so
 * that BEGIN IMMEDIATE comes back at once from a file that is locked, and is tried again later. No other statement meets
 * a lock, since readers need none in WAL mode, and who has begun has it.
 *
 * So how long a loop stood still says how busy the machine is, and is reported. For how long a thread slept within a call
 * into SQLite does not depend on that, and is asserted; in memory, where no disk is waited for, of all calls.
 */
describe('eight processes that claim from one file', { timeout: 300_000 }, () => {
  it.each(places)('do each task once, and none stands still because of a lock ($place)', async ({ place, root }) => {
    const scene = await Scene.open(mkdtempSync(join(root, 'redrive-faults-')))
    try {
      // Longer than any of them can be kept from its turn on a busy machine: here nobody is to be taken for dead.
      const workers = Array.from({ length: PROCESSES }, () =>
        scene.start({ leaseMs: 20_000, watchesSqlite: canWatchSqlite }),
      )
      await Promise.all(workers.map(({ ready }) => ready))
      for (let added = 0; added < TASKS; added += 50) await scene.addMany(scene.tasks.write, Array(50).fill({}))
      await expectAllAccountedFor(scene)
      const reports = await Promise.all(workers.map(worker => worker.stop()))

      const starts = scene.starts()
      expect(starts.map(({ id }) => id).sort()).toEqual([...scene.accepted.keys()].sort())
      expect(await scene.store.count({})).toMatchObject({ succeeded: TASKS })
      expect(reports.map(({ stale }) => stale)).toEqual(Array(PROCESSES).fill(0))

      const watches = reports.flatMap(({ sqlite }) => sqlite ?? [])
      expect(watches).toHaveLength(canWatchSqlite ? PROCESSES : 0)
      if (canWatchSqlite) expect(Math.max(...watches.map(({ busyCalls }) => busyCalls))).toBeGreaterThan(10)
      for (const watch of watches) expectNoSleepOnLocks(watch, { hasDisk: place === 'on disk' })

      const say = (what: string, each: readonly (string | number)[]) =>
        process.stdout.write(`[faults] ${PROCESSES} processes, ${place}, ${what}: ${each.join(', ')}\n`)
      say(
        'tasks done by each',
        workers.map(({ pid }) => starts.filter(start => start.pid === pid).length),
      )
      say(
        'longest stall of each event loop in ms',
        reports.map(({ stallMs }) => stallMs.toFixed(1)),
      )
      say(
        'longest sleep of each on a lock, on the disk in ms',
        watches.map(
          ({ longestBusy, longestOnDisk }) => `${longestBusy.asleepMs.toFixed(1)} ${longestOnDisk.asleepMs.toFixed(1)}`,
        ),
      )
    } finally {
      await scene.close()
    }
  })
})

function expectNoSleepOnLocks(watch: SqliteWatch, { hasDisk }: { readonly hasDisk: boolean }): void {
  expect(watch.busyTimeoutMs).toBe(0)
  const { longestBusy, longestOther, longestOnDisk } = watch
  for (const { sql, asleepMs } of [longestBusy, longestOther, ...(hasDisk ? [] : [longestOnDisk])])
    expect(asleepMs, `asleep in ${sql}`).toBeLessThan(hasDisk ? LONGEST_ON_DISK_MS : LONGEST_MS)
}
