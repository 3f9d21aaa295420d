import type { Store } from '../store/index.js'
import { type Cost, contractOf, type RunStore, sumOfCosts, type TaskReader } from '../store/internal.js'
import { roundedCost } from './cost.js'
import { costByStage } from './cost-totals.js'
import { type AttemptYield, type ErrorCount, type RetryBucket, RunTally } from './run-tally.js'
import { type RunView, runView } from './run-view.js'
import type { StageReport } from './stage-tally.js'

/** A run with what its ledger tells: plain JSON. */
export interface RunReport extends RunView {
  /** From its opening to its end, or until now. */
  readonly durationMs: number
  /** Items that have succeeded, been skipped or died, per second. */
  readonly itemsPerSecond: number
  /** Its stages, in their order. */
  readonly stageReports: readonly StageReport[]
  /** How much all attempts took from each bucket, as `used()` said, whatever became of them. */
  readonly used: Cost
  /** How many items needed no retry, one, two, …. */
  readonly retries: readonly RetryBucket[]
  /** Which attempts succeed: of the first ones, of the second ones, …. */
  readonly attempts: readonly AttemptYield[]
  /** The commonest errors: those with the most dead items first, then those with the most failures. */
  readonly errors: readonly ErrorCount[]
  /** Failed attempts by coarse type. */
  readonly errorTypes: Readonly<Record<ErrorCount['type'], number>>
}

/** The parts of a store that a report reads. */
export interface ReportStore extends Pick<TaskReader, 'ledgers'> {
  /** The runs of the store. */
  readonly runs: Pick<RunStore, 'get' | 'items'>
  /** The store's clock. */
  now(): Promise<number>
}

/** Options of a report. */
export interface ReportOptions {
  /** Ends the reading: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal
  /** Called after each page with the number of items read so far. */
  readonly onProgress?: (items: number) => void
}

const PAGE = 500

/**
 * Reads the ledger of a run, page by page, and adds it up. Resolves with `undefined` if there is no such run.
 *
 * ```ts
 * const report = await reportRun(store, 'enrich-1')
 * console.log(report?.stageReports.map(({ stage, reliability }) => [stage, reliability]))
 * ```
 */
export async function reportRun(
  store: Store,
  id: string,
  { signal, onProgress }: ReportOptions = {},
): Promise<RunReport | undefined> {
  const contract = contractOf(store)
  const run = await contract.runs.get(id)
  if (run === undefined) return undefined
  const tally = new RunTally(run.stages)
  let after: string | undefined
  let read = 0
  do {
    signal?.throwIfAborted()
    const { items, next } = await contract.runs.items(id, { limit: PAGE, after })
    const ledgers = await contract.ledgers(items.map(item => item.id))
    for (const [index, item] of items.entries()) tally.add({ item, history: ledgers[index] ?? [] })
    read += items.length
    onProgress?.(read)
    after = next
  } while (after !== undefined)
  const costs = await costByStage(store, run)
  const stageReports = tally.stages().map(report => ({ ...report, used: costs.get(report.stage) ?? {} }))
  const durationMs = (run.endedAt ?? (await contract.now())) - run.createdAt
  const { succeeded, skipped, dead } = run.counts
  return {
    ...runView(run),
    durationMs,
    itemsPerSecond: durationMs > 0 ? ((succeeded + skipped + dead) * 1000) / durationMs : 0,
    stageReports,
    used: roundedCost(sumOfCosts([...costs.values()])),
    retries: tally.retries(),
    attempts: tally.yields(),
    errors: tally.errors(),
    errorTypes: tally.errorTypes(),
  }
}
