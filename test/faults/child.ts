import { appendFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import { TaskQueue, Worker } from 'redrive/task'
import { openPostgres } from '../../src/store/postgres/internal.js'
import { deadlyStore, dieAt, type Point } from './deadly-store.js'
import { openStore } from './open-store.js'
import { shiftClock } from './shifted-clock.js'
import { type SqliteWatch, watchSqlite } from './sqlite-watch.js'
import { makeTasks } from './tasks.js'

/*
 * A worker in a process of its own, as an application would run it. It says `ready` when it works. SIGTERM lets it stop
 * in good order, and tell of itself in one line of JSON.
 */

/** The start-up options of a process. */
export interface ChildOptions {
  readonly folder: string
  /** Of its store. */
  readonly url: string
  readonly name: string
  readonly leaseMs: number
  readonly concurrency: number
  /** It enqueues tasks too, and notes in `accepted.log` those that were acknowledged. */
  readonly enqueues?: boolean
  readonly watchesSqlite?: boolean
  /** On PostgreSQL: how many connections there are for its store and its handlers together. Else each has its own. */
  readonly poolSize?: number
  /** On PostgreSQL: how long it waits for an answer. */
  readonly timeoutMs?: number
  /** How far its clock is off. */
  readonly clockShiftMs?: number
  readonly dieAt?: { readonly point: Point; readonly time: number }
}

/** The report of a process when it stops. */
export interface ChildReport {
  /** Settlements that were refused. */
  readonly stale: number
  /** How long its event loop stood still at most, from when it was ready. */
  readonly stallMs: number
  /** If it was told to watch. */
  readonly sqlite?: SqliteWatch
}

const options: ChildOptions = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '')
const reach = options.dieAt === undefined ? () => {} : dieAt(options.dieAt)
const sqlite = options.watchesSqlite ? watchSqlite() : undefined
shiftClock(options.clockShiftMs ?? 0)
const pool = options.url.startsWith('postgres:') ? await makePool(options) : undefined
const opened =
  pool === undefined || options.poolSize === undefined
    ? await openStore(options.url, { timeout: options.timeoutMs })
    : await openPostgres(pool, { timeout: options.timeoutMs })
const store = options.dieAt === undefined ? opened : deadlyStore(opened, reach)
const tasks = makeTasks({ folder: options.folder, reach, pool, store })
const worker = new Worker(store, {
  tasks: Object.values(tasks),
  name: options.name,
  lease: options.leaseMs,
  concurrency: options.concurrency,
  grace: '5s',
})

const delay = monitorEventLoopDelay({ resolution: 1 })
process.once('SIGTERM', async () => {
  delay.disable()
  await worker.stop()
  await store.close()
  await pool?.end()
  const report: ChildReport = { stale: worker.stale, stallMs: delay.max / 1e6, sqlite }
  writeSync(1, `${JSON.stringify(report)}\n`)
  process.exit(0)
})
await worker.start()
delay.enable()
writeSync(1, 'ready\n')

const queue = new TaskQueue(store)
while (options.enqueues) {
  const added = await queue.enqueueMany(tasks.write, [
    { payload: {} },
    { payload: { ms: 5 } },
    { payload: { failures: 1 } },
  ])
  appendFileSync(join(options.folder, 'accepted.log'), added.map(({ id }) => `${id}\n`).join(''))
  await sleep(50)
}

/** Makes the pool that handlers use to reach the application's own database, on PostgreSQL. */
async function makePool({ url, poolSize }: ChildOptions): Promise<Pool> {
  const { default: pg } = await import('pg')
  return new pg.Pool({ connectionString: url, max: poolSize }).on('error', () => {})
}
