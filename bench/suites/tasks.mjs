// Durable tasks on SQLite: how near they come to SQL written by hand. By the clock on the wall, since a disk is in it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as limit from '../tasks/limit.mjs'
import * as plainjob from '../tasks/plainjob.mjs'
import * as redrive from '../tasks/redrive.mjs'
import * as simplest from '../tasks/simplest.mjs'

const ROUNDS = 5
const TASKS = 20_000

/** Seconds of the second of two steps, on a file of its own. */
async function seconds(open, prepare, measured) {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const store = await open(join(folder, 'tasks.db'))
  try {
    await prepare(store)
    const start = performance.now()
    await measured(store)
    return (performance.now() - start) / 1000
  } finally {
    await store.close()
    rmSync(folder, { recursive: true })
  }
}

const nothing = () => {}
const filled =
  ({ enqueue }, count) =>
  store =>
    enqueue(store, count)

/** Tasks per second: the median of rounds in which the contestants take turns. */
async function rates(count, contestants) {
  const times = Object.fromEntries(Object.keys(contestants).map(name => [name, []]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, measure] of Object.entries(contestants)) {
      const time = await measure()
      if (round > 0) times[name].push(time)
    }
  }
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, count / median(all)]))
}

function median(values) {
  return values.sort((a, b) => a - b)[values.length >> 1]
}

function figure(title, rates, target) {
  console.error(`  ${title}`)
  const { limit: most, simplest: least } = rates
  const rows = Object.entries(rates).map(([name, rate]) => ({
    name: NAMES[name] ?? name,
    rate,
    share: most && rate / most,
    shareOfSimplest: least && rate / least,
  }))
  const columns = [{ key: 'rate', head: 'tasks per second', digits: 0 }]
  if (most !== undefined) columns.push({ key: 'share', head: '× same rows', digits: 2 })
  if (least !== undefined) columns.push({ key: 'shareOfSimplest', head: '× simplest', digits: 2 })
  return { title, columns, rows, target }
}

const NAMES = {
  simplest: 'SQL by hand, simplest schema with a ledger',
  limit: 'SQL by hand, the same rows as redrive',
}
const figures = []

const drains = await rates(TASKS, {
  simplest: () => seconds(simplest.open, filled(simplest, TASKS), db => simplest.drain(db)),
  limit: () => seconds(limit.openRaw, filled(limit, TASKS), db => limit.drain(db)),
  redrive: () => seconds(redrive.open, filled(redrive, TASKS), store => redrive.drain(store, TASKS)),
  plainjob: () => seconds(plainjob.open, filled(plainjob, TASKS), queue => plainjob.drain(queue, TASKS)),
})
figures.push(
  figure(`Drain of ${TASKS} tasks that do nothing`, drains, { row: 'redrive', key: 'shareOfSimplest', min: 0.7 }),
)
figures.push({
  title: 'The same, against plainjob',
  columns: [{ key: 'times', head: '× plainjob', digits: 1 }],
  rows: [{ name: 'redrive', times: drains.redrive / drains.plainjob }],
  target: { row: 'redrive', key: 'times', min: 5 },
})

const failing = await rates(5000, {
  simplest: () => seconds(simplest.open, filled(simplest, 5000), db => simplest.drain(db, 5)),
  limit: () => seconds(limit.openRaw, filled(limit, 5000), db => limit.drain(db, 5)),
  redrive: () => seconds(redrive.open, filled(redrive, 5000), store => redrive.drain(store, 5000, 5)),
})
figures.push(
  figure('Drain of 5000 tasks, every fifth of which fails once', failing, {
    row: 'redrive',
    key: 'shareOfSimplest',
    min: 0.6,
  }),
)

const CHUNK = 1000
const bulk = await rates(TASKS, {
  simplest: () => seconds(simplest.open, nothing, db => simplest.enqueue(db, TASKS, CHUNK)),
  limit: () => seconds(limit.openRaw, nothing, db => limit.enqueue(db, TASKS, CHUNK)),
  redrive: () => seconds(redrive.open, nothing, store => redrive.enqueueInChunks(store, TASKS, CHUNK)),
})
figures.push(
  figure(`Enqueue of ${TASKS} tasks, ${CHUNK} at once`, bulk, { row: 'redrive', key: 'shareOfSimplest', min: 0.6 }),
)

const single = await rates(1000, {
  'one by one': () => seconds(redrive.open, nothing, store => redrive.enqueueOneByOne(store, 1000)),
  concurrently: () => seconds(redrive.open, nothing, store => redrive.enqueueConcurrently(store, 1000)),
})
const { rows, ...rest } = figure('1000 single enqueues', single, { row: 'concurrently', key: 'times', min: 20 })
figures.push({
  ...rest,
  columns: [...rest.columns, { key: 'times', head: '× one by one', digits: 1 }],
  rows: rows.map(row => ({ ...row, times: row.rate / single['one by one'] })),
})

console.log(JSON.stringify(figures))
