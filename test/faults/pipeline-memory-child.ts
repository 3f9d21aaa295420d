import { writeSync } from 'node:fs'
import { pipeline, type RunResult, stage } from 'redrive/pipeline'
import type { ItemCounts } from '../../src/store/internal.js'
import { openStore } from './open-store.js'

/*
 * Runs many items through three stages, and watches the memory of its process. It reports in one line of JSON.
 */

/** The start-up options of the process. */
export interface MemoryChildOptions {
  readonly url: string
  readonly count: number
}

/** Its report. */
export interface MemoryChildReport {
  readonly counts: ItemCounts
  /** The highest resident size during the run, above that before it. */
  readonly grownMb: number
}

const { url, count }: MemoryChildOptions = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '')
const text = 'x'.repeat(180)
const code = pipeline(
  'memory',
  stage('first', (item: object) => item, { concurrency: 100 }),
  stage('second', item => item, { concurrency: 100 }),
  stage('third', item => item, { concurrency: 100 }),
)

function* items(many: number): Generator<object> {
  for (let n = 0; n < many; n++) yield { n, text }
}

const store = await openStore(url)
writeSync(1, 'ready\n')
// As much code as a run needs, and its first garbage.
await code.run(items(5000), { store })
const before = process.memoryUsage.rss()
let highest = before
const looking = setInterval(() => {
  highest = Math.max(highest, process.memoryUsage.rss())
}, 50)
const { counts }: RunResult = await code.run(items(count), { store })
clearInterval(looking)
await store.close()
const report: MemoryChildReport = { counts, grownMb: (highest - before) / 2 ** 20 }
writeSync(1, `${JSON.stringify(report)}\n`)
