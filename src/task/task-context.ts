import type { ClaimedTask } from '../store/index.js'
import { LazyAbort } from '../time/index.js'

/** A task as its handler sees it. Its `signal` aborts when its time is up, it is cancelled, or its worker stops. */
export class TaskContext extends LazyAbort {
  readonly id: string
  readonly category: string
  /** The key of its lane: a tenant, an account, a host. */
  readonly key: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  readonly submittedAt: number
  /** Proves that this run still holds the task: give it to a store's `once`. */
  readonly fence: { readonly id: string; readonly token: string }

  constructor(task: ClaimedTask) {
    super()
    this.id = task.id
    this.category = task.category
    this.key = task.key
    // The attempt that was lost has been counted already.
    this.attempt = task.isUndecided ? task.attempts : task.attempts + 1
    this.submittedAt = task.submittedAt
    this.fence = { id: task.id, token: task.token }
  }
}
