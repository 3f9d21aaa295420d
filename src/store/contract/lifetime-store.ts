import type { NewTask } from './task.js'

/** A kind of tasks that have a time to live, or whose deaths others follow, as the last worker that ran it declared it. */
export interface Lifetime {
  /** The kind of the tasks. */
  readonly kind: string
  /** The category of the tasks, where it has a time to live of its own: a stage. Default: all. */
  readonly category?: string | undefined
  /** The hash of the policy, which has the time to live, if there is one. */
  readonly policy: string
  /** The kind of the task that follows a death. Default: none does. */
  readonly onDead?: string | undefined
}

/** Tasks that a worker runs. */
export interface Declaring extends Omit<Lifetime, 'policy'> {
  /** The hash of the policy. Absent if tasks may wait for ever, and nothing follows a death. */
  readonly policy?: string | undefined
}

/** A waiting task to give up. */
export interface ExpiredTask {
  /** Its id. */
  readonly id: string
  /** When it reached the state that it was read in. One that has changed since is left alone. */
  readonly changedAt: number
  /** The tasks that follow its death. */
  readonly ifDead?: readonly NewTask[] | undefined
}

/** Times to live, for tasks that no worker runs. */
export interface LifetimeStore {
  /** Keeps what a worker declares of its kinds, in place of what was declared before. */
  declare(kinds: readonly Declaring[]): Promise<void>
  /** All kinds that were declared, live workers or not. */
  list(): Promise<readonly Lifetime[]>
  /**
   * Gives up waiting tasks whose time to live is over, as a settlement would: `dead` with the reason `ttl_expired`, without an
   * attempt. Those in paused lanes are left alone. Returns the ids of the others.
   */
  expire(tasks: readonly ExpiredTask[]): Promise<string[]>
}
