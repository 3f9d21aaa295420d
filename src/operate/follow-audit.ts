import type { Store } from '../store/index.js'
import { contractOf } from '../store/internal.js'
import { type Clock, sleep, systemClock } from '../time/index.js'

/** Options of reading the audit log. */
export interface FollowAuditOptions {
  /** How many of the records that are there to begin with. Default 50. */
  readonly limit?: number
  /** Ends the following. Without it, only the records that are there are read. */
  readonly signal?: AbortSignal | undefined
  /** Default: the system clock. */
  readonly clock?: Clock
}

const LOOK_EVERY_MS = 500
const PAGE = 500

/** Reads the last audit records, oldest first, and with a `signal` those that are appended later, until it aborts. */
export async function* followAudit(
  store: Store,
  { limit = 50, signal, clock = systemClock }: FollowAuditOptions = {},
): AsyncGenerator<readonly string[]> {
  const { audit } = contractOf(store)
  const { items, end } = await audit.tail(limit)
  yield items
  let after = end
  while (signal !== undefined && !signal.aborted) {
    const page = await audit.page({ limit: PAGE, after })
    after = page.end
    if (page.items.length > 0) yield page.items
    else await sleep(LOOK_EVERY_MS, clock, signal).catch(() => {})
  }
}
