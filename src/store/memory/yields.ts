import type { LedgerRow } from '../contract/ledger.js'
import { ANSWERS, DAY_MS, HELPED, type RetryYield } from '../contract/retry-yield.js'
import type { MemoryTask } from './task.js'

/** Adds up how often retries helped that followed failures since then. */
export function yieldsOf(tasks: Iterable<MemoryTask>, since: number): RetryYield[] {
  const sums = new Map<string, RetryYield>()
  for (const { ledger, record } of tasks) {
    for (const [index, row] of ledger.entries()) {
      if (row.outcome !== 'retry' || row.endedAt < since) continue
      const one = yieldOf(record.kind, row, ledger.slice(index + 1))
      if (one === undefined) continue
      const { kind, category, code, attempt, policy, lastAt } = one
      const name = JSON.stringify([kind, category, code, attempt, policy, Math.floor(lastAt / DAY_MS)])
      const sum = sums.get(name)
      sums.set(name, sum === undefined ? one : added(sum, one))
    }
  }
  return [...sums.values()]
}

/** The retry after one failure; `undefined` if it has not ended, or if a redriven task has made the same attempt again. */
function yieldOf(kind: string, failure: LedgerRow, later: readonly LedgerRow[]): RetryYield | undefined {
  const { verdict, category, policy = '', attempt, endedAt } = failure
  const answer = later.find(({ outcome }) => ANSWERS.includes(outcome))
  const isRepeated = later.some(row => row.outcome === 'retry' && row.attempt === attempt && row.category === category)
  if (answer === undefined || isRepeated) return undefined
  return {
    kind,
    category: category ?? '',
    code: verdict?.code ?? 'unknown',
    attempt: attempt + 1,
    policy,
    made: 1,
    succeeded: hasHelped(answer) ? 1 : 0,
    recovered: answer.outcome === 'dead' && later.some(hasHelped) ? 1 : 0,
    firstAt: endedAt,
    lastAt: endedAt,
  }
}

function hasHelped({ outcome }: LedgerRow): boolean {
  return HELPED.includes(outcome)
}

function added(a: RetryYield, b: RetryYield): RetryYield {
  return {
    ...a,
    made: a.made + b.made,
    succeeded: a.succeeded + b.succeeded,
    recovered: a.recovered + b.recovered,
    firstAt: Math.min(a.firstAt, b.firstAt),
    lastAt: Math.max(a.lastAt, b.lastAt),
  }
}
