import type { Duration } from '../policy/index.js'
import type { Retention } from '../store/index.js'
import type { StoreContract } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import { DutyWarnings } from './duty-warnings.js'
import { toMs } from './to-ms.js'

/** How long ended work is kept. An absent field means for ever. @inline */
export interface RetentionOptions {
  /** Tasks that succeeded, were skipped or were cancelled, with their ledger. */
  readonly ended?: Duration | undefined
  /** Dead letters, with their ledger. */
  readonly dead?: Duration | undefined
  /** Idempotency keys whose work is done. */
  readonly keys?: Duration | undefined
  /** Audit records, and what attempts have spent. */
  readonly audit?: Duration | undefined
}

/** Small batches with a pause in between, so that nobody waits for a transaction of the janitor's. */
const BATCH = 200
const PAUSE_MS = 50
/** The rest once nothing is left to delete. */
const REST_MS = 60_000

const PRUNE = 'delete ended work'

/** Deletes ended work from a store, a little at a time, beside the work. */
export class Janitor implements Sleeper {
  readonly #store: Pick<StoreContract, 'prune'>
  readonly #clock: Clock
  readonly #keep: Retention
  readonly #warnings = new DutyWarnings()
  #timer: Timer | undefined
  #isStopped = false

  constructor(store: Pick<StoreContract, 'prune'>, clock: Clock, options: RetentionOptions) {
    this.#store = store
    this.#clock = clock
    this.#keep = retention(options)
  }

  start(): void {
    if (Object.values(this.#keep).some(keepMs => keepMs !== undefined)) this.#arm(PAUSE_MS)
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
  }

  wake(): void {
    this.#store.prune(this.#keep, BATCH).then(
      count => {
        this.#warnings.succeeded(PRUNE)
        this.#arm(count === BATCH ? PAUSE_MS : REST_MS)
      },
      // The store is asked again later.
      failure => {
        this.#warnings.failed(PRUNE, failure)
        this.#arm(REST_MS)
      },
    )
  }

  #arm(delayMs: number): void {
    if (!this.#isStopped) this.#timer = this.#clock.setTimer(this, delayMs)
  }
}

function retention({ ended, dead, keys, audit }: RetentionOptions): Retention {
  const ms = (name: string, value: Duration | undefined) =>
    value === undefined ? undefined : toMs(`retention.${name}`, value)
  return {
    endedMs: ms('ended', ended),
    deadMs: ms('dead', dead),
    keysMs: ms('keys', keys),
    auditMs: ms('audit', audit),
  }
}
