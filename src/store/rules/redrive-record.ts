import type { By } from '../contract/ledger.js'
import type { StoreContract } from '../contract/store.js'
import { type RecordedIds, recordedIds } from './operator-record.js'

/** The audit record of a redrive of named dead letters. There are two for each: one when it starts, and one when it ends. */
export interface RedriveRecord {
  /** Whether it starts or has ended. */
  readonly event_type: 'redrive_started' | 'redrive_ended'
  /** The same in both records. */
  readonly operation_id: string
  /** The person who asked. */
  readonly who: string
  /** The reason given. */
  readonly why: string | null
  /** The number of dead letters that were named, and the first hundred of their ids. */
  readonly selection: RecordedIds
  /** How many dead letters were moved so far. */
  readonly moved: number
  /** How it ended; `null` when it starts. */
  readonly end: 'complete' | 'stopped' | 'failed' | null
  /** ISO 8601, in UTC, on the store's clock. */
  readonly timestamp: string
}

/**
 * Runs a redrive of named dead letters and puts it on record, however it ends. `move` adds the ids that it has moved to the
 * list it is given, and resolves with `stopped` if it left some behind. Returns that list. If none of the ids is in the
 * store, nothing happens and nothing is recorded.
 */
export async function recordRedrive(
  store: Pick<StoreContract, 'audit' | 'now' | 'get'>,
  ids: readonly string[],
  { who, why }: By,
  move: (moved: string[]) => Promise<'complete' | 'stopped'>,
): Promise<string[]> {
  const selection = recordedIds(ids)
  if (!(await isAnyKnown(store, selection))) return []
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

/** Whether the store may have one of the tasks. It looks no further than the record shows. */
async function isAnyKnown(store: Pick<StoreContract, 'get'>, { named, ids }: RecordedIds): Promise<boolean> {
  if (named > ids.length) return true
  for (const id of ids) if ((await store.get(id)) !== undefined) return true
  return false
}
