// How soon an idle worker on PostgreSQL starts new work, and how soon after its due time a retry starts.
import { enqueuerApart } from '../postgres/enqueuer-apart.mjs'
import { open } from '../postgres/redrive.mjs'
import { withServer } from '../postgres/server.mjs'
import { latencyFigures, measureLatency } from '../tasks/latency.mjs'

async function measure(url) {
  const store = await open(url)
  const elsewhere = await enqueuerApart(url)
  const measured = await measureLatency(store, n => elsewhere.enqueue(n), 4000)
  await elsewhere.close()
  await store.close()
  return measured
}

const measured = await withServer(async server => measure(await server.createDatabase()))
console.log(JSON.stringify(latencyFigures(measured, { on: ' on PostgreSQL', elsewhere: 'in another process' })))
