import type { ActiveAttempt, Driver, End } from '../attempt/index.js'
import { type Delivery, textOf } from '../bus/index.js'
import { begin, type History, type Policy } from '../policy/index.js'
import { taskResult } from '../task/internal.js'
import type { Work } from '../telemetry/index.js'
import { traceparentOf } from '../telemetry/internal.js'
import type { Clock } from '../time/index.js'
import { checkReadable } from './errors.js'
import type { EventKind } from './event-kind.js'
import { eventWork } from './event-work.js'

/** The first attempt at an event, made with the delivery in hand: it costs the store nothing. */
export class FirstAttempt<Event> implements Driver {
  readonly seed: string
  readonly policy: Policy
  readonly history: History
  readonly returned = taskResult
  readonly isFirst = true
  traceId: string | undefined
  /** When its end was certain, on the clock of its history. */
  endedAt = 0
  readonly #kind: EventKind<Event>
  readonly #service: string
  readonly #delivery: Delivery
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #ended: (end: End, first: FirstAttempt<Event>) => void
  #work: Work | undefined

  constructor(
    kind: EventKind<Event>,
    service: string,
    delivery: Delivery,
    clock: Clock,
    ended: (end: End, first: FirstAttempt<Event>) => void,
  ) {
    this.seed = kind.idOf(delivery)
    this.policy = kind.policy
    this.history = begin(Math.floor(clock.now()))
    this.#kind = kind
    this.#service = service
    this.#delivery = delivery
    this.#clock = clock
    this.#startedAt = clock.monotonic()
    this.#ended = ended
  }

  now(): number {
    return this.history.startedAt + Math.round(this.#clock.monotonic() - this.#startedAt)
  }

  work(): Work {
    this.#work ??= eventWork(this.#service, this.seed, this.#kind.keyOf(this.#delivery), this.#kind.queue)
    return this.#work
  }

  get traceparent(): string | undefined {
    return traceparentOf(this.#delivery.headers)
  }

  call(attempt: ActiveAttempt): unknown {
    checkReadable(this.#delivery)
    const { headers } = this.#delivery
    return this.#kind.handle(JSON.parse(textOf(this.#delivery)) as Event, headers, attempt)
  }

  ended(end: End, { endedAt }: ActiveAttempt): void {
    this.endedAt = endedAt
    this.#ended(end, this)
  }
}
