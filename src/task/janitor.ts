import type { Duration } from '../policy/index.js'
import type { Retention, Store } from '../store/index.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import { toMs } from './to-ms.js'

/** How long what is over is kept. What is left out is kept for ever. */
export interface RetentionOptions {
  /** Tasks that succeeded, were skipped or were cancelled, with their ledger. */
  readonly ended?: Duration
  /** Dead letters, with theirs. */
  readonly dead?: Duration
  /** Idempotency keys whose work is done. */
  readonly keys?: Duration
  /** Audit records. */
  readonly audit?: Duration
}

/** So few are forgotten in a transaction that nobody waits for it, and so long is the pause before the next ones go. */
const BATCH = 200
const PAUSE_MS = 50
/** How long it rests when there is nothing left to forget. */
const REST_MS = 60_000

/** Lets a store forget what is over, beside the work: a few at a time, and now and then. */
export class Janitor implements Sleeper {
  private readonly keep: Retention
  private timer: Timer | undefined = undefined
  private isStopped = false

  constructor(
    private readonly store: Pick<Store, 'prune'>,
    private readonly clock: Clock,
    options: RetentionOptions,
  ) {
    this.keep = retention(options)
  }

  start(): void {
    if (Object.values(this.keep).some(keepMs => keepMs !== undefined)) this.arm(PAUSE_MS)
  }

  stop(): void {
    this.isStopped = true
    if (this.timer !== undefined) this.clock.clearTimer(this.timer)
  }

  wake(): void {
    this.store.prune(this.keep, BATCH).then(
      count => this.arm(count === BATCH ? PAUSE_MS : REST_MS),
      // A store that is away just now forgets later.
      () => this.arm(REST_MS),
    )
  }

  private arm(delayMs: number): void {
    if (!this.isStopped) this.timer = this.clock.setTimer(this, delayMs)
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
