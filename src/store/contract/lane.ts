/**
 * The unit of scheduling: all tasks with the same kind, category and key. Holds, pauses, limits and turns apply per lane.
 * An empty category or key means that there is none.
 */
export interface Lane {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** A part of the kind, such as a stage. */
  readonly category: string
  /** A tenant, an account, a host. */
  readonly key: string
}

/** A lane with its limits and its present state. */
export interface LaneRecord extends Lane {
  /** Whether it is paused. */
  readonly isPaused: boolean
  /** The end of its hold; `undefined` if it is not held. */
  readonly heldUntil: number | undefined
  /** The id of the task that holds it: a rate limit refused it, or it is the head of an ordered lane and waits. */
  readonly heldBy?: string | undefined
  /** The id of the first dead letter that blocks it: see `onDead` of its limits. */
  readonly blockedBy?: string | undefined
  /** How many of its tasks run. */
  readonly running: number
  /** Its own limits. */
  readonly limits: LaneLimits
  /** The shared limit that it belongs to, with its learned pace in starts per second and the name of its quota, if it has one. */
  readonly shared?:
    | { readonly limits: SharedLimits; readonly pace: number | undefined; readonly quota?: string | undefined }
    | undefined
}

/** The limits of a lane. Invalid values are an `OptionError`. */
export interface LaneLimits {
  /** How many of its tasks may run at once: a whole number. With 0, none runs. */
  readonly concurrency?: number | undefined
  /** How many of its tasks may start per second, above 0. One second's worth may start at once, the rest evenly. */
  readonly perSecond?: number | undefined
  /**
   * Run its tasks strictly one after another: while a task waits for its next attempt, or was lost, all tasks behind it wait
   * too. The concurrency is 1. A new task goes to the end, whatever the clock says, unless it brings its own `submittedAt`.
   * A task that is to run later takes its place when it is due.
   */
  readonly isOrdered?: boolean | undefined
  /**
   * With `'block'`, an ordered lane stops at its dead letter: the tasks behind it wait until it is redriven, and then runs
   * before them, or is discarded, completed or deleted. Without it they go on. It applies to tasks that die from then on. A
   * letter that blocks its lane is not pruned.
   */
  readonly onDead?: 'block' | undefined
}

/**
 * A limit over all lanes that match, together: the quota of a provider, whoever uses it. It holds beside the limits of
 * each lane. A rate limit that a task meets in any of these lanes holds all of them; afterwards they start at a pace that
 * is learned: nine tenths of the rate that was accepted before the refusal, growing again with every second without one.
 *
 * @inline
 */
export interface SharedLimits {
  readonly isShared: true
  /**
   * Limit the lanes of each quota by themselves, whatever their category: see `quota` of `NewTask`. Lanes without a quota
   * are not concerned, and lanes with one belong to no other shared limit.
   */
  readonly isPerQuota?: boolean | undefined
  /** How many tasks of all these lanes may run at once: a whole number. */
  readonly concurrency?: number | undefined
  /** Buckets that fill at a steady rate, by name. A task starts when each has its cost, or is full; it may leave a debt. */
  readonly rates?: Readonly<Record<string, Rate>> | undefined
  /**
   * Code declares these limits whenever it starts. A declaration changes nothing if it is the same as the last one for
   * these lanes: limits that an operator has set since then hold until the code declares others.
   */
  readonly isDeclared?: boolean | undefined
}

/** A bucket: how fast it fills, and how much it holds. */
export interface Rate {
  /** How much flows in per second, above 0. */
  readonly perSecond: number
  /** Default: one second's worth, at least 1. */
  readonly burst?: number | undefined
}

/** The lanes that agree in every field given, including lanes that are made later. */
export type LaneSelection = { readonly [F in keyof Lane]?: string | undefined } & { readonly kind: string }
