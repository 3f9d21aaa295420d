import type { ScheduleStore, SlotRecord } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'
import type { Duty } from './duties.js'
import { DutyWarnings } from './duty-warnings.js'
import { loadTimetables } from './load-timetables.js'

/** How many schedules are fired in one transaction. */
const BATCH = 500
/** The store is asked this often at least while it has schedules: its clock may have been set. */
const LONGEST_WAIT_MS = 60_000

/** When to look again while another worker is firing. */
const LOOK_AGAIN_MS = 100

const FIRE = 'fire the schedules'

/**
 * Fires schedules when they are due, whoever has declared them. Every worker does, and the store lets one of them fire each
 * slot. The parser of cron expressions is loaded once there is a schedule.
 */
export class ScheduleDuty implements Duty, Sleeper {
  readonly #store: ScheduleStore
  readonly #clock: Clock
  readonly #onSlot: (slot: SlotRecord) => void
  readonly #warnings = new DutyWarnings()
  #timer: Timer | undefined
  #firing: Promise<void> | undefined
  #isStopped = false

  constructor(store: ScheduleStore, clock: Clock, onSlot: (slot: SlotRecord) => void) {
    this.#store = store
    this.#clock = clock
    this.#onSlot = onSlot
  }

  beat(): void {
    // Somebody may have set a schedule that is due earlier.
    this.wake()
  }

  /** Resolves once everything is fired that was due when it was last woken. */
  fired(): Promise<void> {
    return this.#firing ?? Promise.resolve()
  }

  wake(): void {
    this.#disarm()
    if (this.#isStopped) return
    this.#firing ??= this.#fire()
      .then(
        delayMs => {
          this.#warnings.succeeded(FIRE)
          this.#arm(delayMs)
        },
        // The store is asked again with the next heartbeat.
        failure => this.#warnings.failed(FIRE, failure),
      )
      .finally(() => {
        this.#firing = undefined
      })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#disarm()
    await this.#firing
  }

  #disarm(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
    this.#timer = undefined
  }

  /** Fires what is due. Returns how long there is nothing more to do; `undefined` if there are no schedules. */
  async #fire(): Promise<number | undefined> {
    while (!this.#isStopped) {
      const { now, dueAt, hasNews } = await this.#store.next()
      if (dueAt === undefined && !hasNews) return undefined
      if (dueAt !== undefined && dueAt > now && !hasNews) return Math.min(dueAt - now, LONGEST_WAIT_MS)
      const { slots, news } = await this.#store.fire(BATCH, await loadTimetables())
      for (const slot of [...news, ...slots]) this.#onSlot(slot)
      // Another worker is firing, or nothing has come of it.
      if (slots.length + news.length === 0) return LOOK_AGAIN_MS
    }
    return undefined
  }

  #arm(delayMs: number | undefined): void {
    if (delayMs !== undefined && !this.#isStopped) this.#timer = this.#clock.setTimer(this, delayMs)
  }
}
