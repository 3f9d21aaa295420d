import type { KindStats } from './list.js'

/** How many ready tasks `stats` looks at, over all lanes. */
export const MAX_READY_SEEN = 10_000

/** A lane, as `stats` counts it. */
interface CountedLane {
  readonly kind: string
  readonly category: string
  readonly isPaused: boolean
  readonly isHeld: boolean
  readonly waiting: number
  /** Of those, retries that are due and held by their budget. */
  readonly budgeted: number
  readonly running: number
  readonly dead: number
}

/** Tasks of a lane that are due. */
export interface ReadyTasks {
  readonly count: number
  readonly since: number | null | undefined
}

/** Adds up lanes by kind and category. */
export class StatsBook {
  readonly #kinds = new Map<string, { -readonly [Field in keyof KindStats]: KindStats[Field] }>()

  /** Adds a lane, with those of its tasks that are due. They are ready only if the lane is open. */
  add(
    { kind, category, isPaused, isHeld, waiting, budgeted, running, dead }: CountedLane,
    due: readonly ReadyTasks[],
  ): void {
    const stats = this.#of(kind, category)
    stats.waiting += waiting
    stats.running += running
    stats.dead += dead
    if (isPaused) stats.paused += waiting
    else if (isHeld) stats.held += waiting
    else {
      stats.budgeted += budgeted
      for (const tasks of due) addReady(stats, tasks)
    }
  }

  get kinds(): KindStats[] {
    return [...this.#kinds.values()]
  }

  #of(kind: string, category: string) {
    const name = JSON.stringify([kind, category])
    let stats = this.#kinds.get(name)
    if (stats === undefined) {
      const none = { waiting: 0, paused: 0, held: 0, budgeted: 0, ready: 0, readySince: undefined, running: 0, dead: 0 }
      stats = { kind, category, ...none }
      this.#kinds.set(name, stats)
    }
    return stats
  }
}

function addReady(stats: { ready: number; readySince: number | undefined }, { count, since }: ReadyTasks): void {
  stats.ready += count
  if (count > 0) stats.readySince = Math.min(since ?? Infinity, stats.readySince ?? Infinity)
}
