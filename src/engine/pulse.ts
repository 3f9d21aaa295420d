import { isRefusal } from '../attempt/index.js'
import type { Beat, Heartbeat, StoreContract } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'

/** Three beats per lease: two may be missed. */
const BEATS_PER_LEASE = 3

/** The callbacks of a pulse. */
export interface PulseListener {
  /** The store took a beat. */
  onBeat(heartbeat: Heartbeat): void
  /**
   * No beat was taken for a whole lease: other workers may have the tasks by now. `wasBlocked` tells that none was sent, since
   * this process was blocked or suspended, and that the store had taken all that were sent before.
   */
  onLeaseLost(wasBlocked: boolean): void
  /** The store did not take a beat, and may take the next. */
  onMissed(failure: unknown): void
  /** The store takes beats again. */
  onRecovered(): void
  /** The store will never take another beat. */
  onRefused(failure: unknown): void
}

/** Renews the lease of a worker for as long as it works. */
export class Pulse implements Sleeper {
  readonly #store: Pick<StoreContract, 'heartbeat'>
  readonly #beat: () => Beat
  readonly #leaseMs: number
  readonly #clock: Clock
  readonly #listener: PulseListener
  #timer: Timer | undefined
  #isStopped = false
  #isMissing = false
  #isBeating = false
  /** When the beat or claim was sent that the store last renewed the lease with. */
  #renewedAt: number | undefined
  /** When it is time for the next beat. */
  #dueAt = Infinity

  /** `beat` is asked for each beat, since the report of a worker may change. */
  constructor(
    store: Pick<StoreContract, 'heartbeat'>,
    beat: () => Beat,
    leaseMs: number,
    clock: Clock,
    listener: PulseListener,
  ) {
    this.#store = store
    this.#beat = beat
    this.#leaseMs = leaseMs
    this.#clock = clock
    this.#listener = listener
  }

  /** Sends one beat. Rejects if the store does not take it. */
  async beat(): Promise<void> {
    const sentAt = this.#clock.monotonic()
    const heartbeat = await this.#store.heartbeat(this.#beat())
    this.renewed(sentAt)
    this.#listener.onBeat(heartbeat)
  }

  /** The store has renewed the lease, with a beat or a claim that was sent at this time. */
  renewed(sentAt: number): void {
    this.#look(sentAt)
    this.#renewedAt = Math.max(this.#renewedAt ?? sentAt, sentAt)
  }

  /** Sends a beat now and then, until it is stopped. */
  start(): void {
    if (this.#isStopped) return
    this.#dueAt = this.#clock.monotonic() + this.#beatMs
    this.#timer = this.#clock.setTimer(this, this.#beatMs)
  }

  /** Sends the next beat now, if it is beating. */
  hurry(): void {
    if (this.#timer === undefined || this.#isStopped) return
    this.#clock.clearTimer(this.#timer)
    this.wake()
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
  }

  /** It is time for the next beat. */
  wake(): void {
    // A process that was suspended, or a store that was away, is noticed here, even while a beat still waits for its answer.
    this.#look(this.#clock.monotonic())
    this.start()
    if (this.#isBeating) return
    this.#isBeating = true
    this.beat()
      .then(
        () => this.#recovered(),
        failure => this.#missed(failure),
      )
      .finally(() => {
        this.#isBeating = false
      })
  }

  get #beatMs(): number {
    return this.#leaseMs / BEATS_PER_LEASE
  }

  #look(now: number): void {
    if (this.#renewedAt === undefined || now - this.#renewedAt < this.#leaseMs) return
    // A lease has three beats. Where the store had taken all that were sent, even if the answer to the last has not been read
    // yet, the lease is over because the next came late by one beat at least.
    this.#listener.onLeaseLost(now - this.#dueAt >= this.#beatMs && !this.#isMissing)
  }

  #recovered(): void {
    if (this.#isMissing) this.#listener.onRecovered()
    this.#isMissing = false
  }

  #missed(failure: unknown): void {
    if (isRefusal(failure, this.#clock)) return this.#listener.onRefused(failure)
    if (!this.#isMissing) this.#listener.onMissed(failure)
    this.#isMissing = true
  }
}
