import { writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openResultLog, writeResults } from 'redrive/operate'
import type { Pipeline, RunEnd, RunHandle, RunOptions } from 'redrive/pipeline'
import { StoreUnavailableError } from 'redrive/store'
import { defineTask } from 'redrive/task'
import type { ItemCounts, RunStatus } from '../../src/store/internal.js'
import { openStore } from './open-store.js'
import { type Item, makeItems, makePipeline, makeSingle } from './pipeline-stages.js'

/*
 * A process that works on a run: it opens the run or goes on with it, until the run has ended. It says `ready` before it
 * begins, and reports the end in one line of JSON.
 */

/** The start-up options of the process. */
export interface PipelineChildOptions {
  readonly folder: string
  /** Of its store. */
  readonly url: string
  readonly run: string
  readonly pipeline: 'faults' | 'single'
  readonly count: number
  /** It reads the source too. */
  readonly reads: boolean
  readonly leaseMs: number
  readonly concurrency: number
  /** It writes the results to this file: as they come, or in the order of the source when the run has ended. */
  readonly output?: { readonly path: string; readonly isUnordered: boolean }
}

/** Its report. */
export interface PipelineChildReport {
  readonly status: RunStatus
  readonly counts: ItemCounts
}

const options: PipelineChildOptions = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '')
const { folder, url, run, count, reads, leaseMs, concurrency, output } = options
const store = await openStore(url)
const code: Pipeline<Item, unknown> =
  options.pipeline === 'faults' ? makePipeline(folder, { concurrency }) : makeSingle(folder, concurrency)
const source = reads ? { source: makeItems(count) } : {}
const onEnd = { task: defineTask('ended', { handler: (_end: RunEnd) => {} }) }
const settings: RunOptions<Item> = {
  store,
  id: run,
  lease: leaseMs,
  failureBudget: 1,
  maxUnfinished: 2000,
  onEnd,
  hasOutput: output?.isUnordered === true,
}

/** Opens the run if it reads, or goes on with it. */
async function work(): Promise<RunHandle | undefined> {
  if ((await store.runs.get(run)) !== undefined) return code.resume(run, { store, lease: leaseMs, ...source })
  return reads ? code.start(makeItems(count), settings) : undefined
}

/** Writes the results until the run is over for this process. */
async function writeOut(handle: RunHandle): Promise<void> {
  if (output === undefined) return
  if (!output.isUnordered) {
    const { status } = await handle.result
    if (status === 'completed') await writeResults(store, run, output.path)
    return
  }
  const log = await openResultLog(store, run, output.path)
  let isOver = false
  const over = handle.result.finally(() => {
    isOver = true
  })
  while (!isOver) {
    await log.append()
    await sleep(5)
  }
  await over
  await log.append()
  await log.close()
}

writeSync(1, 'ready\n')
for (;;) {
  const handle = await work().catch(failure => {
    // Another process reads, or the store is away: ask again.
    if (failure instanceof StoreUnavailableError || failure.code === 'run_busy') return undefined
    throw failure
  })
  if (handle !== undefined) await writeOut(handle)
  const result = await handle?.result
  if (result?.status === 'completed') {
    const report: PipelineChildReport = { status: result.status, counts: result.counts }
    writeSync(1, `${JSON.stringify(report)}\n`)
    process.exit(0)
  }
  await sleep(50)
}
