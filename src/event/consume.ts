import { type Bus, type Consumer, type Delivery, textOf } from '../bus/index.js'
import { InHand } from '../bus/internal.js'
import type { IdempotencyGuard } from '../idempotency/index.js'
import {
  type Classifier,
  type Duration,
  FinalError,
  OptionError,
  type PolicyInput,
  parseDuration,
} from '../policy/index.js'
import type { AttemptEntry, ClaimedTask, NewTask, Outcome, Settlement, Store } from '../store/index.js'
import { type Outage, Worker, WorkerStoppedError } from '../task/index.js'
import { Ending, Outages, persistently, type RunEnvironment, TaskRun } from '../task/internal.js'
import type { Sink } from '../telemetry/index.js'
import { type Clock, queueClock, sleep } from '../time/index.js'
import { EventKind } from './event-kind.js'
import { type EventTask, eventTask } from './event-task.js'

/** What a handler is told of the attempt besides the event. */
export interface EventContext {
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** Aborts when the attempt's time is up, or the consumer stops. */
  readonly signal: AbortSignal
  /** The event's idempotency key. */
  readonly key: string
}

/** How the events of a queue are consumed. */
export interface ConsumeOptions<Event> {
  /** Called with each event. It may be called again with the same one: after a failure, and after a consumer has died. */
  readonly handler: (event: Event, context: EventContext) => unknown
  /** Who handles them, as keys, dead letters and metrics name it. */
  readonly service: string
  /** The ids of what an event speaks of. They make its idempotency key. */
  readonly key: (event: Event) => readonly string[]
  /** Where events wait for their retry, with every attempt on record, and where dead letters lie. */
  readonly store: Store
  /** Laid over `policies.event`: eight attempts within half an hour, of a `RetryableError` and nothing else. */
  readonly policy?: PolicyInput
  /** The one home of its dead letters: the store, or the failed queue of the bus. Default `store`. */
  readonly deadLetters?: 'store' | 'failed-queue'
  /** What becomes of a dead letter in the store that is redriven: it is handled, or published again. Default `handle`. */
  readonly redrive?: 'handle' | 'publish'
  /** Runs each event once per key, however often it is delivered. */
  readonly guard?: IdempotencyGuard
  /** How many events are handled at once, and as many that come back for a retry. Default 10. */
  readonly concurrency?: number
  /** How long after a consumer has died another takes over what it was trying again. Default 30 s. */
  readonly lease?: Duration
  /** How long `stop()` waits for what is being handled before it gives it back. Default 10 s. */
  readonly grace?: Duration
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier
  /** Takes the events of the work. */
  readonly sink?: Sink
  /** Told when the store does not answer, and when it does again. The consumer asks until then. */
  readonly onOutage?: (outage: Outage) => void
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
}

/**
 * Handles the events of a queue, each until it has succeeded or is a dead letter.
 *
 * ```ts
 * const consumer = await consume(bus, 'chunking', {
 *   service: 'chunking',
 *   key: event => event.message_ids,
 *   store,
 *   handler: async event => storeChunks(await findMessages(event.message_ids)),
 * })
 * ```
 *
 * Resolves once it takes deliveries. The queue must have been declared.
 */
export async function consume<Event>(
  bus: Bus,
  queue: string,
  options: ConsumeOptions<Event>,
): Promise<EventConsumer<Event>> {
  const consumer = new EventConsumer(bus, queue, options)
  await consumer.start()
  return consumer
}

/**
 * A delivery is acknowledged once what became of it is on record, and not before:
 *
 *   delivered ──handler──► succeeded ─────────────────────────────────────► ack
 *       │                  to be retried ──► a task that waits in the store ► ack
 *       │                  given up ──► a dead letter, in its one home ─────► ack
 *       └── again ──► a task in the store, unless there is one ────────────► ack
 *
 * The first attempt is made with the delivery in hand, and costs the store nothing. Everything after a failure is a task's
 * life: its worker here makes the other attempts, and counts them however often processes die. A message that comes a
 * second time may have killed its consumer the first time, so it goes to the store before anything runs.
 */
export class EventConsumer<Event> {
  readonly #bus: Bus
  readonly #queue: string
  readonly #store: Store
  readonly #clock: Clock
  readonly #concurrency: number
  readonly #graceMs: number
  readonly #kind: EventKind<Event>
  readonly #ending = new Ending(() => this.#end())
  readonly #outages: Outages
  readonly #worker: Worker
  readonly #environment: Omit<RunEnvironment, 'settle'>
  /** The first attempts that are being made. */
  readonly #firsts = new InHand<TaskRun>()
  #consumer: Promise<Consumer> | undefined

  constructor(bus: Bus, queue: string, options: ConsumeOptions<Event>) {
    const { store, sink, service, classify, lease, clock = queueClock, concurrency = 10, grace = '10s' } = options
    if (service === '') throw new OptionError('service', `'service' must name the service that handles the events.`)
    this.#bus = bus
    this.#queue = queue
    this.#store = store
    this.#clock = clock
    this.#concurrency = concurrency
    this.#graceMs = parseDuration(grace) ?? 0
    this.#kind = new EventKind(bus, queue, options, clock)
    this.#outages = new Outages(options.onOutage, this.#ending)
    const onOutage = (outage: Outage) => this.#outages.note(outage)
    const tasks = [this.#kind.waiting]
    this.#worker = new Worker(store, { tasks, concurrency, classify, sink, clock, lease, grace, onOutage })
    this.#worker.stopped.catch(failure => this.#ending.fail(failure))
    this.#environment = { store, worker: this.#worker.name, clock, sink, classify }
  }

  /** Begins to take deliveries, and to make the attempts that are due. */
  async start(): Promise<void> {
    await this.#worker.start()
    const take = (delivery: Delivery) => this.#take(delivery)
    try {
      this.#consumer = this.#bus.consume(this.#queue, take, { prefetch: this.#concurrency })
      await this.#consumer
    } catch (failure) {
      // Why it could not start is what matters.
      await this.stop().catch(() => {})
      throw failure
    }
    if (!this.#ending.hasBegun) return
    await this.stopped
    throw new FinalError(`The consumer of '${this.#queue}' was stopped before it had started.`)
  }

  /** Takes no more deliveries, lets handlers end within the grace period, and gives the rest back. */
  stop(): Promise<void> {
    return this.#ending.stop()
  }

  /**
   * Resolves when it has stopped. Rejects if it cannot go on, since the store refuses for good, as one that is damaged does;
   * what it had in hand is given back. A process that does not look at it ends of that.
   */
  get stopped(): Promise<void> {
    return this.#ending.over
  }

  async #end(): Promise<void> {
    const parts = [
      this.#consumer?.then(
        consumer => consumer.stop(),
        () => {},
      ),
      this.#worker.stop(),
    ]
    const stopped = Promise.allSettled(parts)
    const ended = new AbortController()
    const graceful = sleep(this.#graceMs, this.#clock, ended.signal).catch(() => {})
    await Promise.race([stopped, graceful])
    // A timer that nobody waits for would keep the process alive.
    ended.abort()
    for (const run of this.#firsts) run.release(new WorkerStoppedError(this.#worker.name))
    await stopped
    await Promise.all(parts)
  }

  #take(delivery: Delivery): void | Promise<void> {
    if (delivery.isRedelivered) return this.#acknowledge(delivery, this.#record(this.#taskOf(delivery)))
    const now = Math.floor(this.#clock.now())
    const task = freshTask(this.#kind.idOf(delivery), this.#kind.fresh.kind, textOf(delivery), now)
    const settle = (_: TaskRun, settlement: Settlement) => {
      this.#firsts.drop(place, run)
      this.#settle(delivery, settlement)
    }
    const run = new TaskRun(task, this.#kind.fresh, { ...this.#environment, settle }, now)
    const place = this.#firsts.take(run)
    run.start()
  }

  #settle(delivery: Delivery, settlement: Settlement): void {
    const { outcome, attempt } = settlement
    // It was released: no attempt was made.
    if (attempt === undefined) return void delivery.giveBack()
    if (outcome.type === 'succeeded' || outcome.type === 'skipped') return void delivery.ack()
    void this.#acknowledge(delivery, this.#recordFailure(this.#taskOf(delivery), settlement, attempt))
  }

  /** Once it is on record. What the store refuses for good is given back: without a store no event can be dealt with. */
  async #acknowledge(delivery: Delivery, recorded: Promise<void>): Promise<void> {
    try {
      await recorded
      delivery.ack()
    } catch (failure) {
      delivery.giveBack()
      this.#ending.fail(failure)
    }
  }

  #taskOf(delivery: Delivery): EventTask {
    return eventTask(this.#kind.idOf(delivery), this.#queue, delivery, this.#kind.keyOf(textOf(delivery)))
  }

  /** A failed attempt is in the store before its delivery is acknowledged, as the task that it leaves behind. */
  async #recordFailure(task: EventTask, settlement: Settlement, attempt: AttemptEntry): Promise<void> {
    const { outcome } = settlement
    const isLetter = outcome.type === 'dead' && this.#kind.isHomeTheBus
    if (!isLetter) return this.#record({ ...task, tried: { outcome, attempt } })
    // If the event was delivered twice, and has a task by now, its letter is that task's business.
    const known = await this.#persistently(() => this.#store.get(task.id), this.#outages)
    if (known !== undefined) return
    await this.#record({ ...task, tried: { outcome: await this.#bury(task, settlement), attempt } })
  }

  /** Takes a dead letter to the failed queue. Where that can never be, as for one that is too large, the store keeps it. */
  async #bury({ payload }: EventTask, settlement: Settlement): Promise<Outcome> {
    try {
      const reason = await this.#persistently(() => this.#kind.bury(payload, settlement))
      return { type: 'skipped', reason }
    } catch (error) {
      if (this.#ending.hasBegun) throw error
      return settlement.outcome
    }
  }

  async #record(task: NewTask): Promise<void> {
    await this.#persistently(() => this.#store.enqueue([task]), this.#outages)
  }

  /** Asks for as long as it takes. A consumer that stops rejects instead, and its delivery is given back. */
  #persistently<T>(ask: () => Promise<T>, outages?: Outages): Promise<T> {
    const askUnlessStopping = async () => {
      if (this.#ending.hasBegun) throw new FinalError('The consumer is stopping.')
      return ask()
    }
    return persistently(askUnlessStopping, this.#clock, outages)
  }
}

/** An event that nobody has tried yet, as the task that its first attempt runs as. */
function freshTask(id: string, kind: string, payload: string, now: number): ClaimedTask {
  return {
    id,
    kind,
    category: '',
    key: '',
    payload,
    status: 'running',
    priority: 0,
    submittedAt: now,
    startedAt: now,
    nextAttemptAt: undefined,
    attempts: 0,
    deferrals: 0,
    losses: 0,
    previousDelayMs: undefined,
    errorClass: undefined,
    errorCode: undefined,
    errorMessage: undefined,
    reason: undefined,
    result: undefined,
    changedAt: now,
    token: '',
    isUndecided: false,
  }
}
