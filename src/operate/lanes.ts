import type { Lane, LaneControl, LaneLimits, LaneRecord, SharedLimits, TaskReader } from '../store/index.js'

/** A lane as plain JSON. */
export interface LaneView extends Lane {
  /** `paused` by an operator, `held` by a rate limit until `heldUntil`, or `open`. */
  readonly state: LaneState
  /** ISO 8601 text in UTC; `null` if it is not held. */
  readonly heldUntil: string | null
  /** Its tasks that wait, whatever they wait for. */
  readonly waiting: number
  /** Its tasks that run. */
  readonly running: number
  /** Its dead letters. */
  readonly dead: number
  /** The limits of this lane by itself. */
  readonly limits: LaneLimits
  /** The limit that it shares with other lanes, with its learned pace in starts per second. */
  readonly shared: { readonly limits: SharedLimits; readonly pace: number | null } | null
}

/** Whether the tasks of a lane may start. */
export type LaneState = 'open' | 'paused' | 'held'

/** Lists lanes with their state, their limits and their numbers of tasks, by kind, category and key. */
export async function listLanes(
  store: Pick<LaneControl & TaskReader, 'lanes' | 'countBy'>,
  filter: Partial<Lane> = {},
): Promise<LaneView[]> {
  const [lanes, counts] = await Promise.all([
    store.lanes(filter),
    store.countBy(filter, ['kind', 'category', 'key', 'status']),
  ])
  const byName = new Map<string, number>()
  for (const { kind = '', category = '', key = '', status, count } of counts) {
    byName.set(nameOf({ kind, category, key }, status), count)
  }
  return lanes
    .map(lane => ({
      kind: lane.kind,
      category: lane.category,
      key: lane.key,
      state: stateOf(lane),
      heldUntil: lane.heldUntil === undefined ? null : new Date(lane.heldUntil).toISOString(),
      waiting: byName.get(nameOf(lane, 'waiting')) ?? 0,
      running: lane.running,
      dead: byName.get(nameOf(lane, 'dead')) ?? 0,
      limits: lane.limits,
      shared: lane.shared === undefined ? null : { limits: lane.shared.limits, pace: lane.shared.pace ?? null },
    }))
    .sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
}

function stateOf({ isPaused, heldUntil }: LaneRecord): LaneState {
  if (isPaused) return 'paused'
  return heldUntil === undefined ? 'open' : 'held'
}

function nameOf({ kind, category, key }: Lane, status = ''): string {
  return JSON.stringify([kind, category, key, status])
}
