// One million items on SQLite: what an item costs, and how much memory the run takes. Each run has a process of its own.
import { measureApart } from '../apart.mjs'
import { median } from '../interleave.mjs'
import { openFile, run, runWithIds } from '../pipelines/redrive.mjs'
import { isShort } from '../pipelines/short.mjs'
import { withFile } from '../pipelines/sqlite-rounds.mjs'

const FEW = isShort ? 10_000 : 100_000
const MANY = 10 * FEW
const LOOK_EVERY_MS = 100

const [, file, only] = process.argv
if (only === undefined) compare()
else await measure(JSON.parse(only))

/** The small run before, between and after the large ones: the machine may be busier by then. */
function compare() {
  const few = () => measureApart(file, JSON.stringify({ count: FEW }))
  const small = [few()]
  const large = measureApart(file, JSON.stringify({ count: MANY }))
  small.push(few())
  const random = measureApart(file, JSON.stringify({ count: MANY, hasOwnIds: true }))
  small.push(few())

  const yardstick = Object.fromEntries(Object.keys(large).map(key => [key, median(small.map(each => each[key]))]))
  const rows = [
    { name: `${inWords(FEW)} by position`, ...yardstick },
    { name: `${inWords(MANY)} by position`, ...large },
    { name: `${inWords(MANY)} with random ids`, ...random },
  ].map(row => ({ ...row, ratio: row.micros / yardstick.micros, cpuRatio: row.cpuMicros / yardstick.cpuMicros }))
  const columns = [
    { key: 'micros', head: 'µs per item', digits: 0 },
    { key: 'ratio', head: '× small', digits: 2 },
    { key: 'cpuMicros', head: 'CPU µs per item', digits: 0 },
    { key: 'cpuRatio', head: '× small', digits: 2 },
    { key: 'grownMb', head: 'memory growth, MB', digits: 0 },
  ]
  const title = `${inWords(MANY)} items through three stages that do nothing, on SQLite`
  const note = 'Memory is the highest resident size during the run, above that of the open store before it.'
  const [, byPosition, byId] = rows
  console.log(
    JSON.stringify([
      { title, note, columns, rows, target: { row: byPosition.name, key: 'ratio', max: 1.15 } },
      figure('The same: memory growth', byPosition, columns[4], 120),
      figure('The same with random ids, as × the small run by position', byId, columns[1], 2),
    ]),
  )
}

function figure(title, row, column, max) {
  return { title, columns: [column], rows: [row], target: { row: row.name, key: column.key, max } }
}

function inWords(count) {
  return count.toLocaleString('en').replaceAll(',', ' ')
}

async function measure({ count, hasOwnIds = false }) {
  // As much code as a run needs, and its first garbage.
  await withFile(openFile, store => run(store, 2000, { batch: 500 }))
  globalThis.gc()
  let highest = 0
  const look = () => {
    highest = Math.max(highest, process.memoryUsage.rss())
  }
  let before = 0
  const cpu = process.cpuUsage()
  const seconds = await withFile(openFile, async store => {
    before = process.memoryUsage.rss()
    const looking = setInterval(look, LOOK_EVERY_MS)
    await (hasOwnIds ? runWithIds : run)(store, count, { batch: 500 })
    clearInterval(looking)
    look()
  })
  const { user, system } = process.cpuUsage(cpu)
  const grownMb = (highest - before) / 1e6
  console.log(JSON.stringify({ micros: (seconds * 1e6) / count, cpuMicros: (user + system) / count, grownMb }))
}
