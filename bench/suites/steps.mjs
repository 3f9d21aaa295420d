// Measures what steps cost: a task of three steps beside three tasks that do the same, drained by one worker.
//
// By processor time, of this process and of the server, since the machine is busy with other things; round after round, in
// turn.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPostgres } from '../../dist/store/postgres/index.js'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { defineTask, TaskQueue, Worker } from '../../dist/task/index.js'
import { median } from '../interleave.mjs'
import { withServer } from '../postgres/server.mjs'
import { cpuOf, postmasterOf, spentSince } from '../postgres/server-cpu.mjs'

const isShort = process.env.REDRIVE_BENCH_SHORT === '1'
const TASKS = isShort ? 300 : 3000
const ROUNDS = isShort ? 1 : 7
const CONCURRENCY = 50

const call = async () => ({ id: 7 })
const one = defineTask('one', { handler: call })
const three = defineTask('three', {
  handler: async (_, { step }) => [await step('create', call), await step('charge', call), await step('mail', call)],
})

/** Drains tasks in a store of their own. Returns the processor time that it took, in milliseconds. */
async function drain(task, count, open, cpuOfServer) {
  const { store, close } = await open()
  await new TaskQueue(store).enqueueMany(task, Array(count).fill({ payload: null }))
  const [before, server] = [process.cpuUsage(), cpuOfServer()]
  const { succeeded } = await new Worker(store, { tasks: [task], concurrency: CONCURRENCY }).drain()
  const { user, system } = process.cpuUsage(before)
  const spent = (user + system) / 1000 + spentSince(server, cpuOfServer())
  if (succeeded !== count) throw new Error(`${succeeded} of ${count} tasks have succeeded.`)
  await close()
  return spent
}

async function figures(name, open, cpuOfServer) {
  console.error(`  ${name}`)
  const [tasks, steps] = [[], []]
  for (let round = 0; round <= ROUNDS; round++) {
    const ofTasks = await drain(one, 3 * TASKS, open, cpuOfServer)
    const ofSteps = await drain(three, TASKS, open, cpuOfServer)
    // The first one is the warm-up.
    if (round === 0) continue
    tasks.push(ofTasks)
    steps.push(ofSteps)
  }
  const ratio = median(steps.map((spent, round) => tasks[round] / spent))
  return {
    title: `${TASKS} tasks of three steps, and three times as many tasks, drained on ${name}`,
    columns: [
      { key: 'us', head: 'µs of CPU for three', digits: 0 },
      { key: 'rate', head: 'rate', digits: 2 },
    ],
    rows: [
      { name: 'three tasks', us: (median(tasks) * 1000) / TASKS, rate: 1 },
      { name: 'one of three steps', us: (median(steps) * 1000) / TASKS, rate: ratio },
    ],
    target: { row: 'one of three steps', key: 'rate', min: 0.5 },
  }
}

async function onSqlite() {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  let count = 0
  const open = async () => {
    const store = await openSqlite(join(folder, `${count++}.db`))
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

console.log(JSON.stringify([await onSqlite(), await onPostgres()]))
