import type { Duration } from '../policy/index.js'
import { checkOptions, type KnownOptions, wrongOption } from '../policy/internal.js'
import type { Retention } from '../store/index.js'
import type { EndedStatus, StoreContract } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import { DutyWarnings } from './duty-warnings.js'
import { toMs } from './to-ms.js'

/** How long tasks are kept that ended in a status, and how many of them in the whole store: the newest. @inline */
export type Kept = Duration | { readonly age?: Duration | undefined; readonly count?: number | undefined }

/** How long ended work is kept. An absent field means for ever. @inline */
export interface RetentionOptions {
  /** Tasks that succeeded, were skipped or were cancelled, with their ledger; runs, batches and slots of schedules. */
  readonly ended?: Duration | undefined
  /** Tasks that succeeded, in place of `ended`. Items go with their run. */
  readonly succeeded?: Kept | undefined
  /** Tasks that were skipped, likewise. */
  readonly skipped?: Kept | undefined
  /** Tasks that were cancelled, likewise. */
  readonly cancelled?: Kept | undefined
  /** Dead letters, with their ledger. */
  readonly dead?: Kept | undefined
  /** Idempotency keys whose work is done. */
  readonly keys?: Duration | undefined
  /** Audit records, and what attempts have spent. */
  readonly audit?: Duration | undefined
}

const RETENTION: KnownOptions<RetentionOptions> = {
  ended: '',
  succeeded: '',
  skipped: '',
  cancelled: '',
  dead: '',
  keys: '',
  audit: '',
}
const KEPT: KnownOptions<Exclude<Kept, Duration>> = { age: '', count: '' }

/** Small batches with a pause in between, so that nobody waits for a transaction of the janitor's. */
const BATCH = 200
const PAUSE_MS = 50
/** The rest once nothing is left to delete. */
const REST_MS = 60_000

const PRUNE = 'delete ended work'

/**
 * Deletes ended work from a store, a little at a time, beside the work. Without any retention, it deletes what nobody can
 * ask for again: idle lanes, and unique keys whose time is over.
 */
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
    this.#keep = toRetention(options)
  }

  start(): void {
    this.#arm(PAUSE_MS)
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

/** A retention as a store takes it. */
export function toRetention(options: RetentionOptions): Retention {
  checkOptions("'retention'", options, RETENTION)
  const ms = (name: string, value: Duration | undefined) =>
    value === undefined ? undefined : toMs(`retention.${name}`, value)
  const kept = (status: EndedStatus) => {
    const value = options[status]
    if (typeof value !== 'object') return { ms: ms(status, value) }
    checkOptions(`'retention.${status}'`, value, KEPT)
    const { age, count } = value
    if (count !== undefined && !(Number.isSafeInteger(count) && count >= 0))
      throw wrongOption(`retention.${status}.count`, 'a whole number, 0 or more', count)
    return { ms: ms(`${status}.age`, age), count }
  }
  const [succeeded, skipped, cancelled, dead] = [kept('succeeded'), kept('skipped'), kept('cancelled'), kept('dead')]
  const keep = {
    endedMs: ms('ended', options.ended),
    succeededMs: succeeded.ms,
    skippedMs: skipped.ms,
    cancelledMs: cancelled.ms,
    deadMs: dead.ms,
    keysMs: ms('keys', options.keys),
    auditMs: ms('audit', options.audit),
  }
  const counts = { succeeded: succeeded.count, skipped: skipped.count, cancelled: cancelled.count, dead: dead.count }
  const isCounted = Object.values(counts).some(count => count !== undefined)
  return isCounted ? { ...keep, counts } : keep
}
