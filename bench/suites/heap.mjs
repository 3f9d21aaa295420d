// The heap that a call holds while it waits for its next attempt. Each contestant has a process of its own.
import { measureApart } from '../apart.mjs'
import { contestants } from '../contestants/index.mjs'
import { median } from '../interleave.mjs'

const CALLS = 50_000
const WARM_UP = 2000
/** One error for all calls: who keeps the failure on record holds a reference, as an application's own log would. */
const failure = new Error('not yet')

const [, file, only] = process.argv
if (only === undefined) compare()
else await measure(contestants.find(({ name }) => name === only))

function compare() {
  const rows = contestants
    .filter(({ patient }) => patient !== undefined)
    .map(({ name, keeps }) => ({ name, bytes: median([1, 2, 3].map(() => measureApart(file, name))), note: keeps }))
  for (const row of rows) row.ratio = row.bytes / rows[0].bytes
  console.log(
    JSON.stringify([
      {
        title: 'Heap per waiting retry',
        note: `${CALLS} calls that have failed once, all with the same error, and wait for an hour.`,
        columns: [
          { key: 'bytes', head: 'bytes', digits: 0 },
          { key: 'ratio', head: '× loop', digits: 2 },
        ],
        rows,
        target: { row: 'redrive', key: 'ratio', max: 1.1 },
      },
    ]),
  )
}

async function measure({ patient }) {
  const caller = patient()
  let failed = 0
  const fail = async () => {
    failed++
    throw failure
  }
  const pending = new Array(CALLS)
  // Compiled code is not what a call holds, so it is there before the heap is measured.
  for (let i = 0; i < WARM_UP; i++) caller(fail)
  const before = await settledHeap()
  for (let i = 0; i < CALLS; i++) pending[i] = caller(fail)
  const after = await settledHeap()
  if (failed !== WARM_UP + CALLS) throw new Error(`${failed} attempts were made, not one per call.`)
  console.log((after - before) / pending.length)
  process.exit()
}

async function settledHeap() {
  for (let i = 0; i < 5; i++) {
    await new Promise(resolve => setTimeout(resolve, 20))
    globalThis.gc()
  }
  return process.memoryUsage().heapUsed
}
