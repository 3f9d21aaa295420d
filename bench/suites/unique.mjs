// Measures what a unique key costs an enqueue: tasks with a key each beside tasks without, one at a time and many at once.
//
// By processor time, of this process and of the server, since the machine is busy with other things; round after round, in
// turn.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPostgres } from '../../dist/store/postgres/index.js'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { declareTask, TaskQueue } from '../../dist/task/index.js'
import { clearGarbage, median } from '../interleave.mjs'
import { withServer } from '../postgres/server.mjs'
import { cpuOf, postmasterOf, spentSince } from '../postgres/server-cpu.mjs'

const isShort = process.env.REDRIVE_BENCH_SHORT === '1'
const TASKS = isShort ? 300 : 3000
const ROUNDS = isShort ? 1 : 15
const AT_ONCE = 100
const ONE = 'one at a time'

const plain = declareTask('plain')
const keyed = declareTask('keyed', { unique: { key: n => `shop-${n}`, while: 'unfinished', conflict: 'keep' } })

/** How tasks are enqueued, with payloads that no two of a store have in common. */
const WAYS = {
  [ONE]: async (queue, task, first) => {
    for (let n = 0; n < TASKS; n++) await queue.enqueue(task, first + n)
  },
  [`${AT_ONCE} at once`]: async (queue, task, first) => {
    for (let n = 0; n < TASKS; n += AT_ONCE) {
      const items = Array.from({ length: AT_ONCE }, (_, index) => ({ payload: first + n + index }))
      await queue.enqueueMany(task, items)
    }
  },
}

/** The processor time of an act, in milliseconds. */
async function spentOn(cpuOfServer, act) {
  clearGarbage()
  const [before, server] = [process.cpuUsage(), cpuOfServer()]
  await act()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 + spentSince(server, cpuOfServer())
}

async function figures(name, open, cpuOfServer) {
  const found = []
  for (const [way, enqueue] of Object.entries(WAYS)) {
    console.error(`  ${name}, ${way}`)
    const { store, close } = await open()
    const queue = new TaskQueue(store)
    const spent = { plain: [], keyed: [] }
    for (let round = 0; round <= ROUNDS; round++) {
      const turns = round % 2 === 0 ? [plain, keyed] : [keyed, plain]
      for (const task of turns) {
        const ms = await spentOn(cpuOfServer, () => enqueue(queue, task, round * TASKS))
        // The first one is the warm-up.
        if (round > 0) spent[task.kind].push(ms)
      }
    }
    await close()
    found.push({
      title: `${TASKS} tasks enqueued on ${name}, ${way}`,
      columns: [
        { key: 'us', head: 'µs of CPU for one', digits: 1 },
        { key: 'times', head: '× without', digits: 2 },
      ],
      rows: [
        { name: 'without a key', us: (median(spent.plain) * 1000) / TASKS, times: 1 },
        {
          name: 'with a unique key',
          us: (median(spent.keyed) * 1000) / TASKS,
          times: median(spent.keyed.map((ms, round) => ms / spent.plain[round])),
        },
      ],
      // In a call with many tasks, little but index entries is left, and a key takes two more of them for each.
      ...(way === ONE && { target: { row: 'with a unique key', key: 'times', max: 1.3 } }),
    })
  }
  return found
}

async function onSqlite() {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  let count = 0
  const open = async () => {
    const store = await openSqlite(join(folder, `${count++}.db`))
    return { store, close: () => store.close() }
  }
  const found = await figures('SQLite', open, () => new Map())
  rmSync(folder, { recursive: true })
  return found
}

const onPostgres = () =>
  withServer(async server => {
    const postmaster = await postmasterOf(await server.createDatabase())
    const open = async () => {
      const store = await openPostgres(await server.createDatabase(), { listen: false })
      return { store, close: () => store.close() }
    }
    return figures('PostgreSQL', open, () => cpuOf(postmaster))
  })

console.log(JSON.stringify([...(await onSqlite()), ...(await onPostgres())]))
