// One more call arrives at its backoff on a signal that many calls wait on already. Each contestant has a process of
// its own.
import { setMaxListeners } from 'node:events'
import { measureApart } from '../apart.mjs'
import { contestants } from '../contestants/index.mjs'
import { clearGarbage, cpuNs, median } from '../interleave.mjs'

const WAITING = 100_000
const ARRIVALS = 1000
const ROUNDS = 21
/** Where each arrival costs the more the more are waiting, 100 000 of them would take minutes: then there are fewer. */
const FILLING_MS = 5000
const MEASURING_MS = 10_000

const failure = new Error('not yet')
let failed = 0

const [, file, only] = process.argv
if (only === undefined) compare()
else await measure(contestants.find(({ name }) => name === only))

function compare() {
  const rows = contestants
    .filter(({ patient }) => patient?.(new AbortController().signal) !== undefined)
    .map(({ name, signalNote }) => ({ name, ...measureApart(file, name), note: signalNote }))
  console.log(
    JSON.stringify([
      {
        title: 'Arming on a shared signal',
        note: 'The whole way of one more call to its wait: the call, its failing attempt, timer and signal.',
        columns: [
          { key: 'waiting', head: 'waiting', digits: 0 },
          { key: 'withSignalUs', head: 'µs', digits: 2 },
          { key: 'withoutSignalUs', head: 'without signal', digits: 2 },
          { key: 'differenceUs', head: 'the signal alone', digits: 2 },
        ],
        rows,
        target: { row: 'redrive', key: 'withSignalUs', max: 5 },
      },
    ]),
  )
}

async function measure({ patient }) {
  const { signal } = new AbortController()
  setMaxListeners(0, signal)
  const shared = patient(signal)
  const alone = patient()
  const waiting = await fill(shared)
  for (let i = 0; i < 20; i++) await arrive(alone, ARRIVALS)

  const withSignal = []
  const differences = []
  const withoutSignal = []
  const startedAt = performance.now()
  for (let round = 0; round < ROUNDS && performance.now() - startedAt < MEASURING_MS; round++) {
    clearGarbage()
    withSignal.push((await cpuNs(() => arrive(shared, ARRIVALS))) / ARRIVALS / 1000)
    clearGarbage()
    withoutSignal.push((await cpuNs(() => arrive(alone, ARRIVALS))) / ARRIVALS / 1000)
    differences.push(withSignal.at(-1) - withoutSignal.at(-1))
  }
  const result = {
    waiting,
    withSignalUs: median(withSignal),
    withoutSignalUs: median(withoutSignal),
    differenceUs: median(differences),
  }
  console.log(JSON.stringify(result))
  process.exit()
}

async function fill(caller) {
  const startedAt = performance.now()
  let waiting = 0
  while (waiting < WAITING && performance.now() - startedAt < FILLING_MS) {
    await arrive(caller, ARRIVALS)
    waiting += ARRIVALS
  }
  return waiting
}

/** Makes calls, and returns when all of them have failed once and wait. */
async function arrive(caller, calls) {
  const expected = failed + calls
  for (let i = 0; i < calls; i++) caller(fail)
  await new Promise(resolve => setImmediate(resolve))
  if (failed !== expected) throw new Error('Not every call has made its first attempt.')
}

async function fail() {
  failed++
  throw failure
}
