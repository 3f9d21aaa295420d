import { createHash } from 'node:crypto'
import { type Bus, failedQueueOf, type Message } from '../bus/index.js'
import { canonicalJson, extendPolicy, policies } from '../policy/index.js'
import type { Settlement } from '../store/index.js'
import { defineTask, skip, type TaskContext, type TaskDefinition } from '../task/index.js'
import type { Work } from '../telemetry/index.js'
import { abandonedReason } from '../telemetry/internal.js'
import type { Clock } from '../time/index.js'
import type { ConsumeOptions } from './consume.js'
import type { DeadLetterEntry } from './dead-letter-entry.js'
import { eventKey } from './event-key.js'
import { eventKind, type StoredEvent } from './event-task.js'

/** The events of one queue as kinds of task: those that come from the bus, and those that wait in the store. */
export class EventKind<Event> {
  /** Its payload is the event as it was delivered. */
  readonly fresh: TaskDefinition<Event>
  /** Its payload is a `StoredEvent`. */
  readonly waiting: TaskDefinition<StoredEvent>
  readonly isHomeTheBus: boolean
  readonly #bus: Bus
  readonly #queue: string
  readonly #options: ConsumeOptions<Event>
  readonly #clock: Clock

  constructor(bus: Bus, queue: string, options: ConsumeOptions<Event>, clock: Clock) {
    this.#bus = bus
    this.#queue = queue
    this.#options = options
    this.#clock = clock
    this.isHomeTheBus = options.deadLetters === 'failed-queue'
    const kind = eventKind(queue)
    const policy = extendPolicy(policies.event, options.policy ?? {})
    this.fresh = defineTask(kind, {
      policy,
      handler: (event: Event, task) => this.#handle(event, task),
      describe: payload => this.#describe(this.keyOf(payload)),
    })
    this.waiting = defineTask(kind, {
      policy,
      handler: (stored: StoredEvent, task) => this.#again(stored, task),
      describe: payload => this.#describe((JSON.parse(payload) as StoredEvent).key),
      bury: this.isHomeTheBus ? (payload, settlement) => this.bury(payload, settlement) : undefined,
    })
  }

  /** The id of an event's task. It comes from the event's own, so that what is delivered twice waits once. */
  idOf(message: Message): string {
    return `${this.#queue}/${this.identityOf(message)}`
  }

  /** What tells an event from all others of its queue: its own id, or what it holds if it came without one. */
  identityOf(message: Message): string {
    const { id } = message
    if (id !== undefined && /^[\x21-\x7e]{1,200}$/.test(id)) return id
    return createHash('sha256')
      .update(id ?? message.body)
      .digest('hex')
  }

  /** The idempotency key of what was delivered, which may be anything. */
  keyOf(text: string): string {
    try {
      return eventKey(this.#options.service, this.#options.key(JSON.parse(text) as Event))
    } catch {
      return `${this.#options.service}-unknown`
    }
  }

  /** Puts the dead letter of an event into the failed queue of the bus. Returns where it lies now. */
  async bury(payload: string, { outcome, attempt }: Settlement): Promise<string> {
    const { key, message, ...stored } = JSON.parse(payload) as StoredEvent
    const event = 'event' in stored ? stored.event : stored.raw_body
    const error = attempt?.error ?? ''
    const entry: DeadLetterEntry = {
      original_event: event,
      idempotency_key: key,
      attempt_count: attempt?.attempt ?? 0,
      last_error: error,
      error_type: /^[\w$.]+(?=:)/.exec(error)?.[0] ?? attempt?.verdict?.code ?? 'Error',
      abandoned_reason: abandonedReason(outcome.type === 'dead' ? outcome.reason : 'final_error'),
      service_name: this.#options.service,
      timestamp: new Date(this.#clock.now()).toISOString(),
    }
    const failed = failedQueueOf(this.#queue)
    const id = message.id ?? this.identityOf({ ...message, body: new TextEncoder().encode(canonicalJson(event)) })
    await this.#bus.put(failed, { ...message, id, body: JSON.stringify(entry) })
    return `It is a dead letter in '${failed}'.`
  }

  /** Another attempt at an event that waited in the store. */
  async #again(stored: StoredEvent, task: TaskContext): Promise<unknown> {
    if (!('event' in stored)) throw new SyntaxError('The event is no JSON.')
    const isRedriven = task.startedAt > task.submittedAt
    if (!isRedriven || this.#options.redrive !== 'publish') return this.#handle(stored.event as Event, task)
    const { id, type, headers } = stored.message
    // Under an id of its own: the store has seen the other, and would take this for the same event once more.
    await this.#bus.publish({
      id: `${id ?? task.id}.${task.startedAt}`,
      type,
      headers,
      body: JSON.stringify(stored.event),
    })
    // Whoever takes it next handles it: until then it has not succeeded.
    return skip('It was published again.')
  }

  #handle(event: Event, task: TaskContext): unknown {
    const { service, key: idsOf, handler, guard } = this.#options
    const key = eventKey(service, idsOf(event))
    const { attempt } = task
    if (guard !== undefined) {
      return guard.run(key, ({ signal }) => handler(event, { attempt, key, signal }), { signal: task.signal })
    }
    // A signal costs more than all the rest: it is made for handlers that look at it.
    return handler(event, {
      attempt,
      key,
      get signal() {
        return task.signal
      },
    })
  }

  #describe(key: string): Partial<Work> {
    return { kind: 'event', name: this.#options.service, idempotencyKey: key }
  }
}
