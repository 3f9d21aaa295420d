import { activeTraceparent } from '../attempt/index.js'
import { type Bus, BusClosedError, type NewMessage } from '../bus/index.js'
import { extendPolicy, OptionError, type PolicyInput, policies, RetryableError } from '../policy/index.js'
import type { NewTask, Store } from '../store/index.js'
import { contractOf } from '../store/internal.js'
import { defineTask, type EnqueueOptions, type TaskContext, Worker, type WorkerOptions } from '../task/index.js'
import { toUniqueKey } from '../task/internal.js'

/** An event to publish once its transaction is committed. @inline */
export interface OutboxEvent extends Omit<NewMessage, 'id' | 'body'> {
  /** The id that consumers deduplicate by. Default: a generated id, the same each time the event is published. */
  readonly id?: string | undefined
  /**
   * Events with the same key are published in the order in which they were committed. Without one, there is no order.
   */
  readonly key?: string | undefined
  /**
   * A key that at most one event has which is not published yet. Another one is left out (`keep`), or stands in for it, at the
   * end of its lane (`replace`, and `after`, which does not interrupt a publish).
   */
  readonly unique?: EnqueueOptions['unique']
  /** The body of the event, usually JSON text. */
  readonly body: string
}

/** A store that can enqueue tasks within the caller's own transaction: SQLite or PostgreSQL. */
export interface OutboxStore<Tx, Added> extends Store {
  /** Enqueues tasks in the caller's transaction. */
  enqueueIn(tx: Tx, tasks: readonly NewTask[]): Added
}

/** The options of a relay: those of a worker, whose only task is to publish. @inline */
export interface RelayOptions extends Omit<WorkerOptions, 'tasks' | 'categories'> {
  /**
   * Laid over the relay's own policy, which retries each event until it is published, with delays from 100 ms to 30 s.
   */
  readonly policy?: PolicyInput | undefined
}

/** The category of events with a key, whose lanes are ordered. Events without a key have no order. */
const ORDERED = 'ordered'

const NOT_POSTPONED =
  "An event is published as soon as it can be, so 'unique.conflict' cannot be 'postpone'. Use keep, replace or after."

/** A waiting event blocks those after it in its lane. Still, never give up: an event given up would never arrive. */
const UNTIL_PUBLISHED = /* @__PURE__ */ extendPolicy(policies.task, {
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '100ms', max: '30s' },
  jitter: 'equal',
  timeout: '5m',
  giveUpOn: [OptionError],
})

/**
 * Publishes events if, and only if, their transaction is committed.
 *
 * ```ts
 * const outbox = new Outbox(store)
 * await store.transaction(db => {
 *   db.prepare('INSERT INTO orders (id) VALUES (?)').run(42)
 *   outbox.publish(db, { type: 'order.placed', key: 'order-42', body: '{"order":42}' })
 * })
 *
 * const relay = outbox.relay(bus)
 * await relay.start()
 * ```
 *
 * Each event in the outbox is a task that publishes it, and each key is an ordered lane.
 */
export class Outbox<Tx, Added> {
  readonly #store: OutboxStore<Tx, Added>
  readonly #kind: string

  /** Outboxes of different kinds in one store are independent, each with its own relays. */
  constructor(store: OutboxStore<Tx, Added>, { kind = 'outbox' }: { readonly kind?: string } = {}) {
    contractOf(store)
    this.#store = store
    this.#kind = kind
  }

  /**
   * Writes an event within the caller's own transaction. Returns the result of `enqueueIn`: on PostgreSQL, a promise.
   */
  publish(tx: Tx, { key = '', unique, ...message }: OutboxEvent): Added {
    if (unique?.conflict === 'postpone') throw new OptionError('unique.conflict', NOT_POSTPONED)
    // Let the store generate the task's id, which keeps the order of events within one millisecond.
    const category = key === '' ? '' : ORDERED
    const payload = JSON.stringify(message)
    const traceparent = activeTraceparent()
    const task = { kind: this.#kind, category, key, payload, traceparent }
    return this.#store.enqueueIn(tx, [unique === undefined ? task : { ...task, unique: toUniqueKey(unique) }])
  }

  /**
   * Returns a relay that publishes the events of this outbox. Any number of relays, in any processes, may run at once.
   */
  relay(bus: Pick<Bus, 'publish'>, { policy = {}, ...options }: RelayOptions = {}): Relay {
    const publish = defineTask(this.#kind, {
      policy: extendPolicy(UNTIL_PUBLISHED, policy),
      handler: (event: Omit<OutboxEvent, 'key' | 'unique'>, { id }: TaskContext) => publishOn(bus, { id, ...event }),
    })
    return new Relay(this.#store, this.#kind, new Worker(this.#store, { ...options, tasks: [publish] }))
  }
}

/** Publishes the events of an outbox, each at least once, and those with the same key in order. */
export class Relay {
  readonly #store: Store
  readonly #kind: string
  readonly #worker: Worker

  constructor(store: Store, kind: string, worker: Worker) {
    this.#store = store
    this.#kind = kind
    this.#worker = worker
  }

  /** Starts publishing. */
  async start(): Promise<void> {
    await this.#store.limit({ kind: this.#kind, category: ORDERED }, { isOrdered: true })
    await this.#worker.start()
  }

  /** Resolves once the relay has stopped. Rejects if the store refuses for good. */
  get stopped(): Promise<void> {
    return this.#worker.stopped
  }

  /** Waits for publishes in flight, and leaves the rest to other relays or to the next one. */
  stop(): Promise<void> {
    return this.#worker.stop()
  }
}

async function publishOn(bus: Pick<Bus, 'publish'>, message: NewMessage): Promise<void> {
  try {
    await bus.publish(message)
  } catch (failure) {
    // The bus was closed before the relay was stopped. Nothing is wrong with the event, so retry it.
    if (failure instanceof BusClosedError) throw new RetryableError(failure.message, { code: failure.code })
    throw failure
  }
}
