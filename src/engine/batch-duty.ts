import { batchOf, type Outcome, type StoreContract } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import type { Duty } from './duties.js'
import { DutyWarnings } from './duty-warnings.js'

/** Batches whose members end here are checked this often at most: a check on a server takes a few statements. */
const PAUSE_MS = 200
/** Open batches that nobody works on any more are looked for this often. */
const SWEEP_MS = 60_000

const CHECK = 'end batches whose members have ended'

/**
 * Ends batches: checks those whose members end in this process, right after their settlements are on record, and about once a
 * minute all that are open, since the process that settled a last member may have died before its check.
 */
export class BatchDuty implements Duty, Sleeper {
  readonly #store: () => Pick<StoreContract['batches'], 'check' | 'open'>
  readonly #clock: Clock
  readonly #warnings = new DutyWarnings()
  /** Batches of which members have ended since their last checks. */
  #changed = new Set<string>()
  /** The first member of each batch that had not ended at its last check. */
  readonly #left = new Map<string, string>()
  #timer: Timer | undefined
  #checking: Promise<void> | undefined
  #sweptAt = -Infinity
  #isStopped = false

  constructor(store: () => Pick<StoreContract['batches'], 'check' | 'open'>, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** The settlement of a task is on record. */
  settled(id: string, { type }: Outcome): void {
    const batch = batchOf(id)
    // One that was released may have been cancelled meanwhile, which ends it.
    if (batch !== undefined && type !== 'retry' && type !== 'deferred' && type !== 'later') this.#changed.add(batch)
  }

  /** A batch of settlements is on record. */
  allSettled(): void {
    if (this.#changed.size > 0 && this.#timer === undefined) void this.#check()
  }

  beat(): void {
    const now = this.#clock.monotonic()
    if (now - this.#sweptAt < SWEEP_MS) return
    this.#sweptAt = now
    this.#store()
      .open()
      .then(
        names => {
          for (const name of names) this.#changed.add(name)
          this.allSettled()
        },
        failure => this.#warnings.failed(CHECK, failure),
      )
  }

  wake(): void {
    this.#timer = undefined
    this.allSettled()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#disarm()
    await this.#checking
  }

  /** Checks at once, when nothing is left to be settled here. */
  async finish(): Promise<void> {
    await this.#checking
    if (this.#changed.size > 0) await this.#look()
  }

  #check(): Promise<void> {
    this.#checking ??= this.#look().finally(() => {
      this.#checking = undefined
      this.#disarm()
      if (!this.#isStopped) this.#timer = this.#clock.setTimer(this, PAUSE_MS)
    })
    return this.#checking
  }

  async #look(): Promise<void> {
    const names = this.#changed
    this.#changed = new Set()
    for (const name of names) {
      try {
        const left = await this.#store().check(name, this.#left.get(name))
        if (left === undefined) this.#left.delete(name)
        else this.#left.set(name, left)
        this.#warnings.succeeded(CHECK)
      } catch (failure) {
        // The store is asked again with the next settlement, or the next sweep.
        this.#changed.add(name)
        this.#warnings.failed(CHECK, failure)
      }
    }
  }

  #disarm(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
    this.#timer = undefined
  }
}
