import type { AttemptEnd, RetriedTask, StoreContract } from '../store/internal.js'
import { pagesOf } from './pages.js'

/**
 * How often one more attempt helped: the retries that were made after failures with the same code, on the same day (UTC),
 * and after the same number of attempts. A redriven task starts again at attempt 1. Where it makes an attempt a second
 * time, only the later one counts, so that no task counts twice.
 */
export interface RetryYield {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The category that the task was in: the stage of an item. Empty if there was none. */
  readonly category: string
  /** The code of the failure before, such as `http_502`. */
  readonly code: string
  /** The number of the attempt that followed it: 2 or more. */
  readonly attempt: number
  /** The hash of the policy that asked for it. `policies` has the policy itself. Empty if none is on record. */
  readonly policy: string
  /** How many such attempts have ended in a success or a failure. Deferrals and losses are neither. */
  readonly made: number
  /** How many of them succeeded, were skipped, or let their item advance. */
  readonly succeeded: number
  /** How many of them were the last before their task died, and the task has succeeded since, after a redrive. */
  readonly recovered: number
  /** When the first of the failures before them ended. */
  readonly firstAt: number
  /** When the last of the failures before them ended. */
  readonly lastAt: number
}

/** The days that failures are told apart by, in UTC. */
export const DAY_MS = 86_400_000

/** The outcomes of a retry that helped, as the ledger has them. */
const HELPED = new Set<AttemptEnd['outcome']>(['succeeded', 'skipped', 'advanced'])

/** The outcomes of a retry that tell whether it helped. */
const ANSWERS = new Set<AttemptEnd['outcome']>([...HELPED, 'retry', 'dead'])

/** How often retries helped that followed failures since then, by day and in no particular order. Reads all of these failures. */
export async function retryYields(store: Pick<StoreContract, 'retried'>, since: number): Promise<RetryYield[]> {
  const yields = new Map<string, RetryYield>()
  for await (const tasks of pagesOf(page => store.retried(since, page)))
    for (const task of tasks)
      for (const [index, end] of task.ends.entries())
        if (end.outcome === 'retry' && end.endedAt >= since) add(yields, task, end, task.ends.slice(index + 1))
  return [...yields.values()]
}

/** Counts the retry after a failure, unless it has not ended, or a redriven task has made the same attempt again. */
function add(
  yields: Map<string, RetryYield>,
  { kind, hasSucceeded }: RetriedTask,
  { category, code, attempt, policy, endedAt }: AttemptEnd,
  later: readonly AttemptEnd[],
): void {
  const answer = later.find(({ outcome }) => ANSWERS.has(outcome))?.outcome ?? (hasSucceeded ? 'succeeded' : undefined)
  const isRepeated = later.some(end => end.outcome === 'retry' && end.attempt === attempt && end.category === category)
  if (answer === undefined || isRepeated) return
  const hasPassed = hasSucceeded || later.some(({ outcome }) => HELPED.has(outcome))
  const facts = { kind, category, code: code === '' ? 'unknown' : code, attempt: attempt + 1, policy }
  const name = JSON.stringify([...Object.values(facts), Math.floor(endedAt / DAY_MS)])
  const known = yields.get(name)
  yields.set(name, {
    ...facts,
    made: (known?.made ?? 0) + 1,
    succeeded: (known?.succeeded ?? 0) + (HELPED.has(answer) ? 1 : 0),
    recovered: (known?.recovered ?? 0) + (answer === 'dead' && hasPassed ? 1 : 0),
    firstAt: Math.min(known?.firstAt ?? endedAt, endedAt),
    lastAt: Math.max(known?.lastAt ?? endedAt, endedAt),
  })
}
