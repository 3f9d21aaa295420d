import type { Lane, SharedLimits } from '../contract/lane.js'
import type { KindStats } from '../contract/list.js'
import type { Cost } from '../contract/task.js'
import { isCovering } from './budgets/claim-gates.js'
import { type SharedState, startsNow } from './shared-limit.js'

/** How many due tasks `stats` looks at, over all lanes. */
export const MAX_READY_SEEN = 10_000

/** A lane, as `stats` counts it. */
interface CountedLane extends Pick<Lane, 'kind' | 'category'> {
  readonly isPaused: boolean
  readonly isHeld: boolean
  readonly waiting: number
  /** Of those, retries that are due and held by their budget. */
  readonly budgeted: number
  /** How many of its tasks may start now as far as its order, its concurrency and its rate go. */
  readonly allowance: number
  /** The quota that it is under, and how many of all its tasks may start now. */
  readonly quota?: { readonly id: unknown; readonly room: number } | undefined
}

/** Tasks of a lane that are due, in the order in which they start. */
export interface DueTasks {
  readonly count: number
  /** When the first of those became due that the lane lets start. */
  readonly since: number | null | undefined
}

/** A limit that several lanes share, as `stats` goes by it. */
export interface CountedSharedLimit {
  readonly kind: string
  /** All categories if there is none. */
  readonly category: string | undefined
  readonly limits: SharedLimits
  readonly state: SharedState
}

type Figures = { -readonly [Field in keyof KindStats]: KindStats[Field] }

/**
 * Adds up lanes by kind and category.
 *
 * A task is **ready** if it could start now, had a worker a free slot for it: it is due; its lane is neither paused nor held,
 * and no gate covers it; its retry budget has let it through; and order, concurrency and rates let it start beside the
 * tasks that run and the ready tasks before it. Behind a running task of an ordered lane none is ready, and of a lane with
 * three free slots three are. The tasks beyond that are **limited**. Metrics, autoscaling, notifications and `stats` all go
 * by this. Under a limit with rates, all tasks of a kind and category are taken to cost as much as one of the first.
 */
export class StatsBook {
  readonly #kinds = new Map<string, Figures>()
  /** How many tasks of each quota are ready. */
  readonly #ready = new Map<unknown, number>()

  /** Adds the tasks of lanes, whatever their state. */
  count({ kind, category, ...counts }: Pick<KindStats, 'kind' | 'category' | 'waiting' | 'running' | 'dead'>): void {
    const stats = this.#of(kind, category)
    stats.waiting += counts.waiting
    stats.running += counts.running
    stats.dead += counts.dead
  }

  /** Adds what the tasks of a lane wait for. */
  add(lane: CountedLane, due: readonly DueTasks[]): void {
    const { kind, category, isPaused, isHeld, waiting, budgeted, allowance, quota } = lane
    const stats = this.#of(kind, category)
    if (isPaused) stats.paused += waiting
    else if (isHeld) stats.held += waiting
    else {
      stats.budgeted += budgeted
      const ofQuota = this.#ready.get(quota?.id) ?? 0
      const most = Math.max(0, Math.min(allowance, quota === undefined ? Infinity : quota.room - ofQuota))
      let left = most
      for (const { count, since } of due) {
        const ready = Math.min(count, left)
        left -= ready
        stats.ready += ready
        stats.limited += count - ready
        if (ready > 0) stats.readySince = Math.min(since ?? Infinity, stats.readySince ?? Infinity)
      }
      if (quota !== undefined) this.#ready.set(quota.id, ofQuota + most - left)
    }
  }

  /** The figures by kind and category. */
  kinds(
    shared: readonly CountedSharedLimit[],
    costOf: (part: KindStats) => Cost | undefined,
    now: number,
  ): KindStats[] {
    return withShared([...this.#kinds.values()], shared, costOf, now)
  }

  #of(kind: string, category: string): Figures {
    const name = JSON.stringify([kind, category])
    let stats = this.#kinds.get(name)
    if (stats === undefined) {
      const none = { waiting: 0, paused: 0, held: 0, budgeted: 0, ready: 0, readySince: undefined, limited: 0 }
      stats = { kind, category, ...none, running: 0, dead: 0 }
      this.#kinds.set(name, stats)
    }
    return stats
  }
}

/** Lowers what is ready to what limits let start that lanes share. The kind whose task has been ready for longest comes first. */
export function withShared(
  kinds: readonly KindStats[],
  shared: readonly CountedSharedLimit[],
  costOf: (part: KindStats) => Cost | undefined,
  now: number,
): KindStats[] {
  const figures: Figures[] = kinds.map(part => ({ ...part }))
  for (const limit of shared) {
    const parts = figures.filter(part => limitOf(shared, part) === limit)
    let room = (limit.limits.concurrency ?? Infinity) - parts.reduce((sum, { running }) => sum + running, 0)
    let started = 0
    for (const part of parts.sort((a, b) => (a.readySince ?? Infinity) - (b.readySince ?? Infinity))) {
      const starts = startsNow(limit.limits, limit.state, costOf(part), now) - started
      const ready = Math.max(0, Math.min(part.ready, room, starts))
      part.limited += part.ready - ready
      part.ready = ready
      if (ready === 0) part.readySince = undefined
      room -= ready
      started += ready
    }
  }
  return figures
}

/** The limit of a category, or else that of its kind. */
function limitOf(shared: readonly CountedSharedLimit[], part: KindStats): CountedSharedLimit | undefined {
  const covering = shared.filter(limit => isCovering(limit, part))
  return covering.find(({ category }) => category !== undefined) ?? covering[0]
}
