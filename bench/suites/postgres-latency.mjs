// How soon an idle worker on PostgreSQL starts new work, how soon after its due time a retry starts, and how soon a worker on a
// store that was just opened claims its first task, and stops.
import { enqueuerApart } from '../postgres/enqueuer-apart.mjs'
import { open } from '../postgres/redrive.mjs'
import { withServer } from '../postgres/server.mjs'
import { enqueueRecord, figure, latencyFigures, measureFirst, measureLatency } from '../tasks/latency.mjs'

/** Stores that are opened for the first claim on each. */
const STORES = 9

async function measure(url) {
  const store = await open(url)
  const elsewhere = await enqueuerApart(url)
  const measured = await measureLatency(store, n => elsewhere.enqueue(n), 4000)
  await elsewhere.close()
  await store.close()
  return measured
}

/** The first claims on stores that were just opened, each in a database of its own, and the stops right after them. */
async function measureFirsts(server) {
  const firsts = []
  for (let n = 0; n < STORES; n++) {
    const url = await server.createDatabase()
    const filler = await open(url)
    await enqueueRecord(filler, n)
    await filler.close()
    const store = await open(url)
    firsts.push(await measureFirst(store, n))
    await store.close()
  }
  return firsts
}

const { firsts, measured } = await withServer(async server => {
  const firsts = await measureFirsts(server)
  return { firsts, measured: await measure(await server.createDatabase()) }
})
const claims = firsts.map(({ claimMs }) => claimMs)
const stops = firsts.map(({ stopMs }) => stopMs)
const figures = [
  ...latencyFigures(measured, { on: ' on PostgreSQL', elsewhere: 'in another process' }),
  figure(
    'The first task on a store that was just opened, from when its worker has started until it starts',
    claims,
    50,
  ),
  figure('The stop of that worker, right after its first task', stops, 50),
]
console.log(JSON.stringify(figures))
