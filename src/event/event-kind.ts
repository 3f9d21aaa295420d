import { createHash } from 'node:crypto'
import {
  type ActiveAttempt,
  type Failed,
  type Outages,
  persist,
  type Refused,
  RefusedError,
  UNTIL_ANSWERED,
} from '../attempt/index.js'
import { type Bus, failedQueueOf, type Message, textOf } from '../bus/index.js'
import { noSteps, type WorkKind } from '../engine/internal.js'
import { extendPolicy, FinalError, hashJson, type Policy, policies } from '../policy/index.js'
import type { ClaimedTask, Outcome } from '../store/internal.js'
import { skip } from '../task/index.js'
import { taskResult } from '../task/internal.js'
import type { Work } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import type { ConsumeOptions } from './consume.js'
import { deadLetterEntry, type GivenUp, letterText } from './dead-letter-entry.js'
import { checkReadable } from './errors.js'
import { keyFrom } from './event-key.js'
import { bodyOf, type EventTask, eventKind, eventTask, type StoredEvent, storedEvent } from './event-task.js'
import { eventWork } from './event-work.js'

const step = noSteps('handlers of events', 'Enqueue a task, and use the steps of that.')

/** The events of one queue: how they are handled, and how those that wait in the store are run from there. */
export class EventKind<Event> implements WorkKind {
  readonly kind: string
  readonly queue: string
  readonly policy: Policy
  readonly policyHash: string
  readonly returned = taskResult
  readonly bury: WorkKind['bury']
  readonly #bus: Bus
  readonly #options: ConsumeOptions<Event>
  readonly #clock: Clock
  readonly #outages: Outages

  constructor(bus: Bus, queue: string, options: ConsumeOptions<Event>, clock: Clock, outages: Outages) {
    this.kind = eventKind(queue)
    this.policy = extendPolicy(policies.event, options.policy ?? {})
    this.policyHash = hashJson(this.policy)
    const isHomeTheBus = options.deadLetters === 'failed-queue'
    this.bury = isHomeTheBus
      ? (task, end, signal) => this.buryEvent(task, abandonment(end, task.attempts), signal)
      : undefined
    this.#bus = bus
    this.queue = queue
    this.#options = options
    this.#clock = clock
    this.#outages = outages
  }

  describe({ id, payload }: ClaimedTask): Work {
    return eventWork(this.#options.service, id, storedEvent(payload).key, this.queue)
  }

  /** Makes another attempt at an event that waited in the store. */
  async call(task: ClaimedTask, attempt: ActiveAttempt): Promise<unknown> {
    const stored = storedEvent(task.payload)
    const isRedriven = task.startedAt > task.submittedAt
    if (!isRedriven || this.#options.redrive !== 'publish') {
      // Whoever redrives it has seen what was wrong with it.
      if (!isRedriven) checkReadable(stored.message)
      if ('event' in stored) return this.handle(stored.event as Event, stored.message.headers, attempt)
      throw new SyntaxError('The body of the event is not JSON.')
    }
    const { id, type, headers } = stored.message
    // Publish it under a new id: the store knows the old one, and would deduplicate the event.
    const again = `${id ?? task.id}.${task.startedAt}`
    await this.#bus.publish({ id: again, type, headers, body: bodyOf(task.payload) })
    // It has not succeeded yet: its next consumer handles it.
    return skip('It was published again.')
  }

  /** Calls the user's handler. */
  handle(event: Event, headers: Message['headers'], attempt: ActiveAttempt): unknown {
    const { service, key: keyOf, handler, guard } = this.#options
    const key = keyFrom(service, keyOf(event))
    const { number } = attempt
    if (guard !== undefined) {
      const run = ({ signal }: { readonly signal: AbortSignal }) => {
        const context = { attempt: number, key, headers, step, signal }
        return handler(event, context)
      }
      return guard.run(key, run, { signal: attempt.signal })
    }
    // A signal costs more than everything else here, so create it only for handlers that use it.
    const context = {
      attempt: number,
      key,
      headers,
      step,
      get signal() {
        return attempt.signal
      },
    }
    return handler(event, context)
  }

  /** The id of an event's task. It comes from the event's own, so an event that is delivered twice waits once. */
  idOf(message: Message): string {
    return `${this.queue}/${identityOf(message)}`
  }

  /** The task in which a delivered event waits. */
  taskOf(message: Message): EventTask {
    return eventTask(this.idOf(message), this.queue, message, this.keyOf(message))
  }

  /** The idempotency key of a delivered event, which may be anything. */
  keyOf(message: Message): string {
    const { service, key: keyOf } = this.#options
    try {
      return keyFrom(service, keyOf(JSON.parse(textOf(message)) as Event))
    } catch {
      return `${service}-unknown`
    }
  }

  /**
   * Puts the dead letter of an event into the failed queue of the bus, asking until the broker takes it.
   */
  async buryEvent(
    { id: taskId, payload }: Pick<EventTask, 'id' | 'payload'>,
    givenUp: Abandonment,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const stored = storedEvent(payload)
    const { key, message } = stored
    const { service } = this.#options
    const at = this.#clock.now()
    const letter = deadLetterEntry({
      ...originalOf(stored),
      id: taskId,
      key,
      service,
      at,
      ...givenUp,
    })
    const body = letterText(letter, bodyOf(payload))
    const queue = failedQueueOf(this.queue)
    // The task's id tells an event from all others of its queue, also if the event came without an id.
    const id = message.id ?? taskId.slice(this.queue.length + 1)
    const identity = createHash('sha256').update(taskId).digest('hex')
    const put = async () => {
      if (signal.aborted) throw new FinalError('The consumer is stopping.')
      return this.#bus.put(queue, { ...message, id, body }, { identity })
    }
    await persist(put, UNTIL_ANSWERED, { clock: this.#clock, outages: this.#outages })
    return { type: 'skipped', reason: `It is a dead letter in '${queue}'.` }
  }
}

/** The event of a dead letter, its encoding if it was not JSON, and its headers if they could not be read. */
function originalOf(stored: StoredEvent): Pick<GivenUp, 'event' | 'encoding' | 'headers'> {
  const { unreadable: headers } = stored.message
  if ('event' in stored) return { event: stored.event, headers }
  return { event: stored.raw_body, encoding: stored.encoding ?? 'text', headers }
}

/** How an event ended that was given up, as its dead letter says it. */
export type Abandonment = Pick<GivenUp, 'attempts' | 'failure' | 'reason'>

/** How an event was given up. `attempts` were on record before this end. */
export function abandonment(end: Failed | Refused, attempts: number): Abandonment {
  if (end.type === 'refused') return { attempts, failure: new RefusedError(end.reason), reason: end.reason }
  const { failure, decision } = end
  const reason = decision.action === 'give_up' ? decision.reason : ('final_error' as const)
  return { attempts: attempts + 1, failure, reason }
}

/** Tells an event from all others of its queue: its own id, or the hash of its body if it came without one. */
function identityOf({ id, body }: Message): string {
  if (id !== undefined && /^[\x21-\x7e]{1,200}$/.test(id)) return id
  return createHash('sha256')
    .update(id ?? body)
    .digest('hex')
}
