import type { Settlement, Store } from '../store/index.js'
import { failureText } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import type { Outages } from './outages.js'
import { persistently } from './persistently.js'

/** Collects what runs came to, and settles it in batches. What has been done must be on record, so it does not give up. */
export class Settler {
  /** Settlements that came too late: by then the task was somebody else's. */
  stale = 0
  /** How many were added that are not on record yet. */
  unsettled = 0
  private waiting: Settlement[] = []
  private flushing: Promise<void> | undefined = undefined

  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly outages: Outages,
    /** Called whenever a batch is on record. */
    private readonly onSettled: () => void,
  ) {}

  add(settlement: Settlement): void {
    this.waiting.push(settlement)
    this.unsettled++
  }

  /** Resolves once all that was added is on record. One batch is under way at a time, so that the order holds. */
  flush(): Promise<void> {
    this.flushing ??= this.settleAll().finally(() => {
      this.flushing = undefined
    })
    return this.flushing
  }

  private async settleAll(): Promise<void> {
    while (this.waiting.length > 0) {
      const batch = this.waiting
      this.waiting = []
      await this.settle(batch).catch(() => this.settleEach(batch))
      this.unsettled -= batch.length
      this.onSettled()
    }
  }

  /** One of them is the kind that no store can take. It must not hold up the others. */
  private async settleEach(batch: readonly Settlement[]): Promise<void> {
    for (const [done, settlement] of batch.entries()) {
      try {
        await this.settle([settlement]).catch(failure => this.settle([refused(settlement, failure)]))
      } catch (failure) {
        // It takes nothing at all. What is left stays, so that whoever flushes next is told too.
        this.waiting.unshift(...batch.slice(done))
        throw failure
      }
    }
  }

  private async settle(batch: readonly Settlement[]): Promise<void> {
    const answers = await persistently(() => this.store.settle(batch), this.clock, this.outages)
    this.stale += answers.filter(({ result }) => result === 'stale').length
  }
}

/** In the place of a settlement that the store cannot take: a dead letter that says so. */
function refused({ id, token, attempt }: Settlement, failure: unknown): Settlement {
  const { attempt: number = 1, startedAt = 0, endedAt = 0, worker = '' } = attempt ?? {}
  const error = `What the task came to could not be stored. ${failureText(failure)}`
  const verdict = { class: 'final', code: 'settlement_refused' } as const
  const entry = { attempt: number, startedAt, endedAt, worker, verdict, error }
  return { id, token, outcome: { type: 'dead', reason: 'final_error' }, attempt: entry }
}
