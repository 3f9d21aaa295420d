import { setTimeout as wait } from 'node:timers/promises'
import { persist, UNTIL_ANSWERED } from '../../attempt/index.js'
import type { Store, TaskFilter } from '../../store/index.js'

/** To count is cheap, but not free. */
const LOOK_EVERY_MS = 100

/** Which tasks. */
export interface Scope {
  readonly kinds: readonly string[]
  /** Absent: all of them. */
  readonly categories?: readonly string[]
}

/** Resolves when none of these tasks is waiting or running, here or elsewhere, or when nobody wants to know any more. */
export async function untilEmpty(store: Store, { kinds, categories }: Scope, signal: AbortSignal): Promise<void> {
  const filters: TaskFilter[] = kinds.flatMap(kind => categories?.map(category => ({ kind, category })) ?? [{ kind }])
  while (!signal.aborted) {
    const counts = await persist(() => Promise.all(filters.map(filter => store.count(filter))), UNTIL_ANSWERED)
    if (counts.every(({ waiting, running }) => waiting + running === 0)) return
    await wait(LOOK_EVERY_MS, undefined, { signal }).catch(() => {})
  }
}
