import { runNow, type Tx } from '../port/steps.js'
import { lookAtBudget } from '../verbs/runs.js'
import type { EndedItem } from './settle.js'
import type { RunStatements } from './statements/runs.js'

const NONE: ReadonlySet<string> = new Set()

/**
 * Lists outputs that are to be written, and checks the budgets of runs for which that is due. Returns the runs that it
 * stopped. Within a transaction.
 */
export function noteEnded(runs: RunStatements, tx: Tx, items: readonly EndedItem[]): ReadonlySet<string> {
  if (items.length === 0) return NONE
  const lanes = new Set(items.map(({ lane }) => lane))
  const touched = new Map([...lanes].map(lane => [lane, runs.watched.get(lane)]))
  for (const { id, lane, isSucceeded } of items) {
    const run = touched.get(lane)
    if (isSucceeded && run?.has_output === 1) runs.addOutput.run(run.id, id)
  }
  const due = new Map([...touched.values()].map(run => [run?.id ?? '', run?.next_check ?? Infinity]))
  const stopped = new Set<string>()
  for (const [id, nextCheck] of due) {
    const isDue = nextCheck !== Infinity && (runs.processed.get(id) ?? 0) >= nextCheck
    if (isDue && runNow(lookAtBudget(tx, id)).isStopped) stopped.add(id)
  }
  return stopped
}
