import type { WorkEvent } from 'redrive'
import type { Store } from 'redrive/store'

/**
 * Facts that only the work events tell: the attempts that this run has started, and the tasks that wait for another.
 */
export class Tally {
  attempts = 0
  readonly retrying = new Set<string>()

  /** Begins with what an earlier run has left waiting after a failure. */
  static async of(store: Store): Promise<Tally> {
    const tally = new Tally()
    let after: string | undefined
    do {
      const { items, next } = await store.list({ status: 'waiting' }, { limit: 500, after })
      for (const { id, attempts, deferrals } of items) if (attempts + deferrals > 0) tally.retrying.add(id)
      after = next
    } while (after !== undefined)
    return tally
  }

  readonly sink = ({ type, work }: WorkEvent): void => {
    if (type === 'attempt_started') {
      this.attempts++
      this.retrying.delete(work.id)
    } else if (type === 'retry_scheduled' || type === 'deferred') {
      this.retrying.add(work.id)
    }
  }
}
