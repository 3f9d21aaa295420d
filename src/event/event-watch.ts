import type { GiveUpReason } from '../policy/index.js'
import type { Sink, WorkEvent } from '../telemetry/index.js'
import { emit } from '../telemetry/internal.js'
import type { Clock } from '../time/index.js'
import { eventWork } from './event-work.js'

/** Why an event was given up, and after how many attempts. */
export interface Abandonment {
  readonly failure: unknown
  readonly reason: GiveUpReason
  readonly attempts: number
}

/** Watches the call that handles an event: passes its work events on as those of the event, and learns why it ended. */
export class EventWatch {
  readonly #service: string
  readonly #key: string
  readonly #clock: Clock
  readonly #sink: Sink | undefined
  readonly #startedAt: number
  #attempts = 0
  #isRunning = false
  /** The failure of the last attempt. */
  #failure: unknown
  #reason: GiveUpReason | undefined

  constructor(service: string, key: string, clock: Clock, sink: Sink | undefined) {
    this.#service = service
    this.#key = key
    this.#clock = clock
    this.#sink = sink
    this.#startedAt = clock.monotonic()
  }

  /** The sink for the call. */
  readonly sink = (event: WorkEvent): void => {
    if (event.type === 'attempt_started') {
      this.#attempts = event.attempt
      this.#isRunning = true
    } else if ('failure' in event) {
      // A call that is given up between two attempts has failed with the last one.
      if (this.#isRunning) this.#failure = event.failure
      this.#isRunning = false
      if (event.type === 'gave_up' && event.reason !== 'breaker_open') this.#reason = event.reason
    }
    if (this.#sink !== undefined) this.#pass(this.#sink, event)
  }

  /** How the event ended whose call was rejected with this error. */
  end(error: unknown): Abandonment {
    const reason = this.#reason ?? 'final_error'
    return { failure: this.#reason === undefined ? error : this.#failure, reason, attempts: this.#attempts }
  }

  #pass(sink: Sink, event: WorkEvent): void {
    const work = eventWork(this.#service, event.work.id, this.#key)
    const isSuccess = event.type === 'attempt_succeeded'
    emit(sink, isSuccess ? { ...event, work, totalMs: this.#clock.monotonic() - this.#startedAt } : { ...event, work })
  }
}
