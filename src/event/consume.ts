import {
  ActiveAttempt,
  type End,
  type Environment,
  type Outage,
  Outages,
  persist,
  type Stopped,
  UNTIL_ANSWERED,
} from '../attempt/index.js'
import type { Bus, Consumer, Delivery } from '../bus/index.js'
import { InHand } from '../bus/internal.js'
import { Ending, Engine, entryOf, outcomeOf } from '../engine/internal.js'
import type { IdempotencyGuard } from '../idempotency/index.js'
import {
  type Classifier,
  type Duration,
  FinalError,
  OptionError,
  type PolicyInput,
  parseDuration,
} from '../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../policy/internal.js'
import { type NewTask, type Store, StoreRefusedError } from '../store/index.js'
import { contractOf, type Outcome, type StoreContract } from '../store/internal.js'
import { WorkerStoppedError } from '../task/index.js'
import { failureText, type Sink } from '../telemetry/index.js'
import { type Clock, queueClock, sleep } from '../time/index.js'
import { abandonment, EventKind } from './event-kind.js'
import type { EventTask } from './event-task.js'
import { FirstAttempt } from './first-attempt.js'
import { requeueTarget } from './requeue-work.js'

/** The attempt, as the handler of an event sees it. */
export interface EventContext {
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** Aborts when the time of the attempt is up, or the consumer stops. */
  readonly signal: AbortSignal
  /** The event's idempotency key. */
  readonly key: string
  /** The headers that the event was published with. */
  readonly headers: Readonly<Record<string, string>>
}

/** Options of `consume`. */
export interface ConsumeOptions<Event> {
  /** Handles an event. It may be called again with the same one: after a failure, and after a consumer died. */
  readonly handler: (event: Event, context: EventContext) => unknown
  /** The name of the service, as keys, dead letters and metrics show it. */
  readonly service: string
  /** The ids of the entities that an event is about, which make its idempotency key (`eventKey`); or the key itself. */
  readonly key: (event: Event) => readonly string[] | string
  /** Its name on record. No two workers or consumers may share one. Default: generated. */
  readonly name?: string | undefined
  /** Keeps events that wait for their retry, every attempt, and dead letters. */
  readonly store: Store
  /** Overrides `policies.event`, field by field: eight attempts within half an hour. */
  readonly policy?: PolicyInput | undefined
  /** The one home of its dead letters: the store, or the failed queue of the bus. Default `store`. */
  readonly deadLetters?: 'store' | 'failed-queue' | undefined
  /** Whether a dead letter that is redriven from the store is handled, or published again. Default `handle`. */
  readonly redrive?: 'handle' | 'publish' | undefined
  /** Runs each event once per key, however often it is delivered. */
  readonly guard?: IdempotencyGuard | undefined
  /** How many new events are handled at once, and how many retries. Default 10. */
  readonly concurrency?: number | undefined
  /** How long after the death of a consumer another one takes over its retries. Default 30 s. */
  readonly lease?: Duration | undefined
  /** How long `stop()` waits for running handlers before it gives their events back. Default 10 s. */
  readonly grace?: Duration | undefined
  /**
   * The version of your application, for the record of each attempt. Default: the environment variable REDRIVE_RELEASE,
   * or the version in the package.json of the program.
   */
  readonly release?: string | undefined
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier | undefined
  /** Receives the work events. */
  readonly sink?: Sink | undefined
  /**
   * Called with `{ isOver: false, failure }` when the store or the broker stops answering, and with `{ isOver: true }` when
   * it answers again. The consumer retries until then.
   */
  readonly onOutage?: ((outage: Outage) => void) | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
}

/** How long an event is kept in hand that can be kept nowhere else. */
const REST_MS = 60_000

const CONSUME_OPTIONS: KnownOptions<ConsumeOptions<unknown>> = {
  handler: 'function',
  service: '',
  name: '',
  key: 'function',
  store: '',
  policy: 'object',
  deadLetters: '',
  redrive: '',
  guard: 'object',
  concurrency: '',
  lease: '',
  grace: '',
  release: '',
  classify: 'function',
  sink: 'function',
  onOutage: 'function',
  clock: 'object',
}

/**
 * Handles the events of a queue, each until it succeeds or becomes a dead letter.
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
 * Takes the events of a queue. A delivery is acknowledged once its end is on record, and not before:
 *
 *   delivered ──handler──► succeeded ─────────────────────────────────────► ack
 *       │                  to be retried ──► a task that waits in the store ► ack
 *       │                  given up ──► a dead letter, in its one home ─────► ack
 *       └── again ──► a task in the store, unless there is one ────────────► ack
 *
 * The first attempt is made with the delivery in hand, and costs the store nothing. From the first failure on, an event
 * has the life of a task: the engine here makes the other attempts, and they are counted however often processes die. A
 * message that is delivered again may have killed its consumer, so it goes to the store before anything runs.
 */
export class EventConsumer<Event> {
  readonly #bus: Bus
  readonly #queue: string
  readonly #service: string
  readonly #store: StoreContract
  readonly #clock: Clock
  readonly #concurrency: number
  readonly #graceMs: number
  readonly #kind: EventKind<Event>
  readonly #ending = new Ending(() => this.#end())
  readonly #stopping = new AbortController()
  readonly #outages: Outages
  readonly #engine: Engine
  readonly #environment: Environment
  /** The first attempts in flight. */
  readonly #firsts = new InHand<ActiveAttempt>()
  #consumer: Promise<Consumer> | undefined

  constructor(bus: Bus, queue: string, options: ConsumeOptions<Event>) {
    checkOptions('consume()', options, CONSUME_OPTIONS)
    const {
      store,
      sink,
      service,
      name,
      classify,
      release,
      lease,
      clock = queueClock,
      concurrency = 10,
      grace = '10s',
    } = options
    if (service === '') throw new OptionError('service', `'service' must name the service that handles the events.`)
    this.#bus = bus
    this.#queue = queue
    this.#service = service
    this.#store = contractOf(store)
    this.#clock = clock
    this.#concurrency = concurrency
    this.#graceMs = parseDuration(grace) ?? 0
    this.#outages = new Outages(options.onOutage, () => this.#ending.hasBegun)
    this.#kind = new EventKind(bus, queue, options, clock, this.#outages)
    const onOutage = (outage: Outage) => this.#outages.note(outage)
    const outside = requeueTarget(bus)
    const engineOptions = { outside, name, concurrency, classify, sink, clock, release, lease, grace, onOutage }
    this.#engine = new Engine(this.#store, [this.#kind], engineOptions)
    this.#engine.stopped.catch(failure => this.#ending.fail(failure))
    this.#environment = { clock, sink, classify }
  }

  /** Starts to take deliveries, and to make due attempts. */
  async start(): Promise<void> {
    await this.#engine.start()
    const take = (delivery: Delivery) => this.#take(delivery)
    try {
      const onOutage = (outage: Outage) => this.#outages.note(outage)
      this.#consumer = this.#bus.consume(this.#queue, take, { prefetch: this.#concurrency, onOutage })
      await this.#consumer
    } catch (failure) {
      // The caller needs to know why it could not start, not what followed from that.
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
   * Resolves when it has stopped. Rejects if it cannot go on because the store refuses for good, as a damaged one does;
   * its deliveries are given back. Like every unhandled rejection, that ends the process unless it is handled.
   */
  get stopped(): Promise<void> {
    return this.#ending.over
  }

  async #end(): Promise<void> {
    this.#stopping.abort()
    const parts = [
      this.#consumer?.then(
        consumer => consumer.stop(),
        () => {},
      ),
      this.#engine.stop(),
    ]
    const stopped = Promise.allSettled(parts)
    const ended = new AbortController()
    const graceful = sleep(this.#graceMs, this.#clock, ended.signal).catch(() => {})
    await Promise.race([stopped, graceful])
    // Cancel the grace timer, which would keep the process alive.
    ended.abort()
    for (const attempt of this.#firsts) attempt.stop(new WorkerStoppedError(this.#engine.name))
    await stopped
    await Promise.all(parts)
  }

  #take(delivery: Delivery): void | Promise<void> {
    if (delivery.isRedelivered) return this.#acknowledge(delivery, 0, this.#record(this.#kind.taskOf(delivery)))
    const first = new FirstAttempt(this.#kind, this.#service, delivery, this.#clock, end => {
      this.#firsts.drop(place, attempt)
      this.#ended(delivery, end, first)
    })
    const attempt = new ActiveAttempt(first, this.#environment)
    const place = this.#firsts.take(attempt)
    attempt.start()
  }

  #ended(delivery: Delivery, end: End, first: FirstAttempt<Event>): void {
    switch (end.type) {
      case 'stopped':
        delivery.giveBack()
        break
      case 'succeeded':
      case 'skipped':
      // Events have no stages.
      case 'advanced':
        delivery.ack()
        break
      case 'failed':
      case 'refused':
      case 'later':
        void this.#acknowledge(delivery, 1, this.#recordEnd(delivery, end, first))
    }
  }

  /**
   * Acknowledges a delivery once it is on record. If the store can never take this one event, it is given up. Any other
   * refusal is one of every event, and ends the consumer.
   */
  async #acknowledge(delivery: Delivery, attempts: number, recorded: Promise<void>): Promise<void> {
    try {
      await recorded
      delivery.ack()
    } catch (failure) {
      if (failure instanceof StoreRefusedError) return this.#giveUp(delivery, attempts, failure)
      delivery.giveBack()
      this.#ending.fail(failure)
    }
  }

  /**
   * Puts an event that the store can never take into the failed queue, whatever the home of dead letters is. If that can
   * never take it either, the event goes back after a rest: at once, it would be delivered again and again.
   */
  async #giveUp(delivery: Delivery, attempts: number, failure: StoreRefusedError): Promise<void> {
    const { signal } = this.#stopping
    const task = this.#kind.taskOf(delivery)
    try {
      await this.#kind.buryEvent(task, { attempts, failure, reason: 'final_error' }, signal)
      delivery.ack()
    } catch (refusal) {
      if (!signal.aborted) {
        const problem = `The event ${quoted(task.id)} can be kept nowhere, and is given back: ${failure.message}`
        const detail = `In the failed queue: ${failureText(refusal)}`
        process.emitWarning(problem, { type: 'RedriveWarning', code: 'event_refused', detail })
        await sleep(REST_MS, this.#clock, signal).catch(() => {})
      }
      delivery.giveBack()
    }
  }

  /** Records the end of a first attempt, as the task that it leaves behind. */
  async #recordEnd(delivery: Delivery, end: Exclude<End, Stopped>, first: FirstAttempt<Event>): Promise<void> {
    const task = this.#kind.taskOf(delivery)
    const times = { startedAt: first.history.startedAt, endedAt: first.endedAt }
    const { name: worker, release, grouping } = this.#engine
    const about = { attempt: 1, ...times, worker, release, trace: first.traceId }
    const attempt = entryOf(end, task, about, this.#kind.policyHash, grouping.rules)
    const outcome = await this.#outcome(task, end)
    if (outcome === undefined) return
    await this.#record(attempt === undefined ? task : { ...task, tried: { outcome, attempt } })
  }

  /** The outcome to record; `undefined` if the event has a task by now, and so its letter is that task's business. */
  async #outcome(task: EventTask, end: Exclude<End, Stopped>): Promise<Outcome | undefined> {
    const outcome = outcomeOf(end)
    const isLetter = outcome.type === 'dead' && this.#kind.bury !== undefined
    if (!isLetter || (end.type !== 'failed' && end.type !== 'refused')) return outcome
    const known = await this.#persist(() => this.#store.get(task.id))
    if (known !== undefined) return undefined
    const { signal } = this.#stopping
    try {
      return await this.#kind.buryEvent(task, abandonment(end, 0), signal)
    } catch (failure) {
      if (signal.aborted) throw failure
      // The broker can never take it, because it is too large for example. The store keeps it.
      return outcome
    }
  }

  async #record(task: NewTask): Promise<void> {
    await this.#persist(() => this.#store.enqueue([task]))
  }

  /** Asks the store until it answers. Rejects when the consumer stops, and the delivery is given back. */
  #persist<T>(ask: () => Promise<T>): Promise<T> {
    const { signal } = this.#stopping
    const askUnlessStopping = async () => {
      if (signal.aborted) throw new FinalError('The consumer is stopping.')
      return ask()
    }
    return persist(askUnlessStopping, UNTIL_ANSWERED, { clock: this.#clock, outages: this.#outages })
  }
}
