// Measures what it saves to call tasks together: 100 payloads in one INSERT beside an INSERT for each task, drained by one
// worker on PostgreSQL with as many places.
//
// By processor time, of this process and of the server, since the machine is busy with other things; round after round, in
// turn.
import pg from 'pg'
import { openPostgres } from '../../dist/store/postgres/index.js'
import { defineTask, TaskQueue, Worker } from '../../dist/task/index.js'
import { median } from '../interleave.mjs'
import { withServer } from '../postgres/server.mjs'
import { cpuOf, postmasterOf, spentSince } from '../postgres/server-cpu.mjs'

const isShort = process.env.REDRIVE_BENCH_SHORT === '1'
const TASKS = isShort ? 2000 : 20_000
const ROUNDS = isShort ? 1 : 7
const SIZE = 100

const insertOne = pool =>
  defineTask('insert', {
    handler: async n => {
      await pool.query('INSERT INTO reading (n) VALUES ($1)', [n])
    },
  })

const insertMany = pool =>
  defineTask('insert', {
    together: { size: SIZE },
    handler: async numbers => {
      await pool.query('INSERT INTO reading (n) SELECT unnest($1::int[])', [numbers])
      return numbers.map(() => undefined)
    },
  })

/** Drains tasks in a store of their own. Returns the processor time that it took, in milliseconds. */
async function drain(makeTask, server, postmaster) {
  const url = await server.createDatabase()
  const store = await openPostgres(url)
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  await pool.query('CREATE TABLE reading (n int PRIMARY KEY)')
  const task = makeTask(pool)
  await new TaskQueue(store).enqueueMany(
    task,
    Array.from({ length: TASKS }, (_, n) => ({ payload: n })),
  )
  const [before, ofServer] = [process.cpuUsage(), cpuOf(postmaster)]
  const { succeeded } = await new Worker(store, { tasks: [task], concurrency: SIZE }).drain()
  const { user, system } = process.cpuUsage(before)
  const spent = (user + system) / 1000 + spentSince(ofServer, cpuOf(postmaster))
  const { rows } = await pool.query('SELECT count(*)::int AS count FROM reading')
  if (succeeded !== TASKS || rows[0].count !== TASKS) throw new Error(`${succeeded} of ${TASKS} tasks have succeeded.`)
  await pool.end()
  await store.close()
  return spent
}

const result = await withServer(async server => {
  const postmaster = await postmasterOf(await server.createDatabase())
  const [alone, together] = [[], []]
  for (let round = 0; round <= ROUNDS; round++) {
    const one = await drain(insertOne, server, postmaster)
    const many = await drain(insertMany, server, postmaster)
    // The first one is the warm-up.
    if (round === 0) continue
    alone.push(one)
    together.push(many)
  }
  return {
    title: `${TASKS} tasks that insert a row each, drained on PostgreSQL with ${SIZE} places`,
    columns: [
      { key: 'us', head: 'µs of CPU per task', digits: 0 },
      { key: 'rate', head: 'rate', digits: 2 },
    ],
    rows: [
      { name: 'one by one', us: (median(alone) * 1000) / TASKS, rate: 1 },
      {
        name: `${SIZE} together`,
        us: (median(together) * 1000) / TASKS,
        rate: median(together.map((spent, round) => alone[round] / spent)),
      },
    ],
    target: { row: `${SIZE} together`, key: 'rate', min: 2 },
  }
})

console.log(JSON.stringify([result]))
