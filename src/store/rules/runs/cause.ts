import type { BudgetStop } from '../../contract/run-store.js'

/** How many items died of the same error in the same stage. */
export interface Deaths {
  /** Absent where an item was given up without an error. */
  readonly errorCode: string | undefined
  readonly stage: string
  readonly count: number
}

/** The commonest failure among dead items, with its share of them. */
export function commonest(deaths: readonly Deaths[]): BudgetStop['cause'] {
  const [first] = [...deaths].sort((a, b) => b.count - a.count)
  if (first === undefined) return undefined
  const all = deaths.reduce((sum, { count }) => sum + count, 0)
  return { errorCode: first.errorCode ?? 'unknown', stage: first.stage, share: first.count / all }
}
