import type { By } from './ledger.js'
import type { TaskFilter } from './list.js'
import type { Store } from './store.js'

/** The audit record of a redrive. There are two for each: one when it starts, and one when it ends. */
export interface RedriveRecord {
  /** Whether it starts or has ended. */
  readonly event_type: 'redrive_started' | 'redrive_ended'
  /** The same in both records. */
  readonly operation_id: string
  /** The person who asked. */
  readonly who: string
  /** The reason given. */
  readonly why: string | null
  /** The number of ids named, the filter, or `all`. */
  readonly selection: { readonly named: number } | { readonly filter: Omit<TaskFilter, 'status'> } | 'all'
  /** How many dead letters were moved so far. */
  readonly moved: number
  /** How it ended; `null` when it starts. */
  readonly end: 'complete' | 'stopped' | 'failed' | null
  /** ISO 8601, in UTC, on the store's clock. */
  readonly timestamp: string
}

/**
 * Runs a redrive and puts it on record, however it ends. `move` adds the ids that it has moved to the list it is given,
 * and resolves with `stopped` if it left some behind. Returns that list.
 */
export async function recordRedrive(
  store: Pick<Store, 'audit' | 'now'>,
  selection: RedriveRecord['selection'],
  { who, why }: By,
  move: (moved: string[]) => Promise<'complete' | 'stopped'>,
): Promise<string[]> {
  const operation_id = crypto.randomUUID()
  const moved: string[] = []
  const append = async (event_type: RedriveRecord['event_type'], end: RedriveRecord['end']) => {
    const timestamp = new Date(await store.now()).toISOString()
    const about = { event_type, operation_id, who, why: why ?? null, selection }
    const record: RedriveRecord = { ...about, moved: moved.length, end, timestamp }
    await store.audit.append([JSON.stringify(record)])
  }

  await append('redrive_started', null)
  let end: 'complete' | 'stopped'
  try {
    end = await move(moved)
  } catch (error) {
    // The store may be unreachable. Each task that was moved says so in its own ledger.
    await append('redrive_ended', 'failed').catch(() => {})
    throw error
  }
  await append('redrive_ended', end)
  return moved
}
