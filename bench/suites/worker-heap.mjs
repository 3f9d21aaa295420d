// The memory of a worker while it drains, by how much is waiting. Each backlog has a process of its own.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { defineTask, Worker } from '../../dist/task/index.js'
import { measureApart } from '../apart.mjs'
import { median } from '../interleave.mjs'

const BACKLOGS = [1000, 1_000_000]
/** As many are run of each backlog, so that nothing else differs; the heap is looked at in the second half of them. */
const DRAINED = 1000
const LOOK_EVERY = 50

const [, file, only] = process.argv
if (only === undefined) compare()
else await measure(Number(only))

function compare() {
  const rows = BACKLOGS.map(backlog => {
    const runs = [1, 2, 3].map(() => measureApart(file, String(backlog)))
    const name = `a backlog of ${backlog.toLocaleString('en').replaceAll(',', ' ')}`
    return { name, heap: median(runs.map(({ heap }) => heap)), rss: median(runs.map(({ rss }) => rss)) }
  })
  for (const row of rows) row.ratio = row.heap / rows[0].heap
  console.log(
    JSON.stringify([
      {
        title: 'Memory of a worker that drains',
        note: `100 tasks at once, after garbage is collected; the median of ${DRAINED / 2 / LOOK_EVERY} looks, in each of three processes.`,
        columns: [
          { key: 'heap', head: 'heap, MB', digits: 2 },
          { key: 'ratio', head: '× small', digits: 2 },
          { key: 'rss', head: 'resident, MB', digits: 0 },
        ],
        rows,
        target: { row: rows[1].name, key: 'ratio', max: 1.2 },
      },
    ]),
  )
}

async function measure(backlog) {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const path = join(folder, 'redrive.db')
  const store = await openSqlite(path)
  fill(path, backlog)

  const looks = []
  let ran = 0
  let finish
  const drained = new Promise(resolve => {
    finish = resolve
  })
  const work = defineTask('work', {
    handler: async () => {
      // All that was claimed with it has been started.
      await new Promise(resolve => setImmediate(resolve))
      ran++
      if (ran > DRAINED / 2 && ran <= DRAINED && ran % LOOK_EVERY === 0) looks.push(look())
      if (ran === DRAINED) finish()
    },
  })
  const worker = new Worker(store, { tasks: [work], concurrency: 100 })
  await worker.start()
  await drained
  await worker.stop()
  await store.close()
  rmSync(folder, { recursive: true })
  const [heap, rss] = ['heap', 'rss'].map(key => median(looks.map(each => each[key])))
  console.log(JSON.stringify({ heap, rss }))
}

function look() {
  globalThis.gc()
  const { heapUsed, rss } = process.memoryUsage()
  return { heap: heapUsed / 1e6, rss: rss / 1e6 }
}

/** Written by hand: a million through the store would take a minute. */
function fill(path, count) {
  const db = new Database(path)
  db.exec(`
    INSERT INTO lane (id, kind, category, key, paused, waiting) VALUES (-1, 'work', '', '', 0, ${count});
    INSERT INTO task (id, lane, state, priority, submitted_at, started_at, changed_at, next_at, payload)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    SELECT 'backlog-' || i, -1, 1, 0, i, i, i, i, '{}' FROM n;
    PRAGMA wal_checkpoint(TRUNCATE)`)
  db.close()
}
