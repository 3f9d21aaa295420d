// How soon an idle worker on SQLite starts new work, and how soon after its due time a retry starts.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { enqueueRecord, latencyFigures, measureLatency } from '../tasks/latency.mjs'

const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
const path = join(folder, 'tasks.db')
const store = await openSqlite(path)
// Another connection to the same file stands for another process: nothing but the file connects the two.
const elsewhere = await openSqlite(path)

const measured = await measureLatency(store, n => enqueueRecord(elsewhere, n), 2000)
await store.close()
await elsewhere.close()
rmSync(folder, { recursive: true })

console.log(JSON.stringify(latencyFigures(measured, { elsewhere: 'elsewhere' })))
