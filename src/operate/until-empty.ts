import { persist, UNTIL_ANSWERED } from '../attempt/index.js'
import type { Store, TaskFilter } from '../store/index.js'
import { contractOf } from '../store/internal.js'
import { type Clock, sleep, systemClock } from '../time/index.js'

/** The tasks to wait for. */
export interface TaskScope {
  /** The kinds of tasks to wait for. */
  readonly kinds: readonly string[]
  /** Default: all of them. */
  readonly categories?: readonly string[]
}

/** Options for waiting. */
export interface UntilEmptyOptions {
  /** Ends the waiting. The promise resolves. */
  readonly signal?: AbortSignal
  /** Default: the system clock. */
  readonly clock?: Clock
  /** Called when tasks are left, but none has run for about three seconds. Not again until one has run. */
  readonly onIdle?: () => void
}

/** Counting is cheap, but not free. */
const COUNT_EVERY_MS = 100
/** A worker needs a moment to claim, and short delays are not worth a word. */
const IDLE_AFTER_COUNTS = 30

/**
 * Resolves once none of these tasks is waiting or running, in any process. Keeps trying while the store is unavailable.
 */
export async function untilEmpty(
  store: Store,
  { kinds, categories }: TaskScope,
  { signal, clock = systemClock, onIdle }: UntilEmptyOptions = {},
): Promise<void> {
  const contract = contractOf(store)
  const filters: TaskFilter[] = kinds.flatMap(kind => categories?.map(category => ({ kind, category })) ?? [{ kind }])
  const countAll = () => Promise.all(filters.map(filter => contract.count(filter)))
  let idleCounts = 0
  try {
    while (!signal?.aborted) {
      const counts = await persist(countAll, UNTIL_ANSWERED, { clock, signal })
      if (counts.every(({ waiting, running }) => waiting + running === 0)) return
      idleCounts = counts.every(({ running }) => running === 0) ? idleCounts + 1 : 0
      if (idleCounts === IDLE_AFTER_COUNTS) onIdle?.()
      await sleep(COUNT_EVERY_MS, clock, signal)
    }
  } catch (error) {
    if (!signal?.aborted) throw error
  }
}
