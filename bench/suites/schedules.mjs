// Measures what schedules cost: firing ten thousand that are due at once, and a worker that waits for them.
//
// Firing is by the clock on the wall, since a disk is in it. The idle worker is by the processor time of its process, and on
// PostgreSQL by that of the server too.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { timetables } from '../../dist/calendar/internal.js'
import { schedule } from '../../dist/schedule/index.js'
import { contractOf } from '../../dist/store/internal.js'
import { openPostgres } from '../../dist/store/postgres/index.js'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { declareTask, defineTask, Worker } from '../../dist/task/index.js'
import { median } from '../interleave.mjs'
import { withServer } from '../postgres/server.mjs'
import { cpuOf, postmasterOf, spentSince } from '../postgres/server-cpu.mjs'

const isShort = process.env.REDRIVE_BENCH_SHORT === '1'
const SCHEDULES = isShort ? 1000 : 10_000
const ROUNDS = isShort ? 1 : 3
const IDLE_MS = isShort ? 5000 : 30_000
/** Long enough to declare all of them before their slot. */
const LEAD_MS = 20_000
/** As many as a worker fires in one transaction. */
const BATCH = 500

const known = timetables()
const task = declareTask('tick')

/** Declares schedules whose first slot is a while from now. Returns when it is. */
async function declare(store, leadMs) {
  const startAt = Math.ceil((Date.now() + leadMs) / 1000) * 1000
  const specs = Array.from({ length: SCHEDULES }, (_, n) => schedule(`s${n}`, { every: '1h', task, startAt }).spec)
  await contractOf(store).schedules.declare(specs, { worker: 'bench' }, known)
  return startAt
}

/** Fires all that are due, as a worker does. Returns how long it took, in seconds. */
async function fireAll(store) {
  const { schedules } = contractOf(store)
  const start = performance.now()
  for (let hasMore = true; hasMore; ) ({ hasMore } = await schedules.fire(BATCH, known))
  return (performance.now() - start) / 1000
}

async function firing(open) {
  const seconds = []
  for (let round = 0; round <= ROUNDS; round++) {
    const { store, close } = await open(`fire_${round}`)
    const slot = await declare(store, LEAD_MS)
    await new Promise(resolve => setTimeout(resolve, slot - Date.now() + 10))
    const took = await fireAll(store)
    const { waiting } = await contractOf(store).count({})
    if (waiting !== SCHEDULES) throw new Error(`${waiting} of ${SCHEDULES} schedules have fired.`)
    if (round > 0) seconds.push(took)
    await close()
  }
  return median(seconds)
}

/** The share of a core that this process and a server take while a worker waits, in percent. */
async function idle(open, cpuOfServer) {
  const share = async isScheduled => {
    const { store, close } = await open(`idle_${isScheduled}`)
    if (isScheduled) await declare(store, 3_600_000)
    const worker = new Worker(store, { tasks: [defineTask(task, { handler() {} })] })
    await worker.start()
    await new Promise(resolve => setTimeout(resolve, 2000))
    const [before, server] = [process.cpuUsage(), cpuOfServer()]
    await new Promise(resolve => setTimeout(resolve, IDLE_MS))
    const { user, system } = process.cpuUsage(before)
    const spent = (user + system) / 1000 + spentSince(server, cpuOfServer())
    await worker.stop()
    await close()
    return (100 * spent) / IDLE_MS
  }
  await share(false) // The warm-up.
  return { without: await share(false), with: await share(true) }
}

const figures = async (name, open, cpuOfServer) => {
  console.error(`  ${name}`)
  const fired = await firing(open)
  const share = await idle(open, cpuOfServer)
  return [
    {
      title: `${SCHEDULES} schedules with a slot in the same minute, on ${name}`,
      columns: [{ key: 'seconds', head: 's', digits: 2 }],
      rows: [{ name: 'all fired', seconds: fired }],
      target: { row: 'all fired', key: 'seconds', max: 2 },
    },
    {
      title: `An idle worker beside ${SCHEDULES} schedules, on ${name}`,
      columns: [{ key: 'percent', head: '% of a core', digits: 2 }],
      rows: [
        { name: 'without schedules', percent: share.without },
        { name: 'with them', percent: share.with },
        { name: 'more', percent: share.with - share.without },
      ],
      target: { row: 'more', key: 'percent', max: 1 },
    },
  ]
}

async function onSqlite() {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const open = async name => {
    const store = await openSqlite(join(folder, `${name}.db`))
    return { store, close: () => store.close() }
  }
  const result = await figures('SQLite', open, () => new Map())
  rmSync(folder, { recursive: true })
  return result
}

const onPostgres = () =>
  withServer(async server => {
    const postmaster = await postmasterOf(await server.createDatabase())
    const open = async () => {
      const store = await openPostgres(await server.createDatabase())
      return { store, close: () => store.close() }
    }
    return figures('PostgreSQL', open, () => cpuOf(postmaster))
  })

console.log(JSON.stringify([...(await onSqlite()), ...(await onPostgres())]))
