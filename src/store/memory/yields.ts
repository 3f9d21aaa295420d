import { ANSWERS, HELPED, type RetryYield } from '../retry-yield.js'
import type { MemoryTask } from './task.js'

/** Adds up how often retries helped that followed failures since then. */
export function yieldsOf(tasks: Iterable<MemoryTask>, since: number): RetryYield[] {
  const sums = new Map<string, RetryYield>()
  for (const { ledger, record } of tasks) {
    for (const [index, row] of ledger.entries()) {
      if (row.outcome !== 'retry' || row.endedAt < since) continue
      const answer = ledger.slice(index + 1).find(({ outcome }) => ANSWERS.includes(outcome))
      if (answer === undefined) continue
      const { verdict, category = '', policy = '', attempt, endedAt } = row
      const one = { kind: record.kind, category, code: verdict?.code ?? 'unknown', attempt: attempt + 1, policy }
      const name = JSON.stringify(one)
      const { made, succeeded, lastAt } = sums.get(name) ?? { made: 0, succeeded: 0, lastAt: 0 }
      const helped = HELPED.includes(answer.outcome) ? 1 : 0
      sums.set(name, { ...one, made: made + 1, succeeded: succeeded + helped, lastAt: Math.max(lastAt, endedAt) })
    }
  }
  return [...sums.values()]
}
