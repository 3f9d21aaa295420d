import { type Bus, BusClosedError, type NewMessage } from '../bus/index.js'
import { extendPolicy, OptionError, type PolicyInput, policies, RetryableError } from '../policy/index.js'
import type { NewTask, Store } from '../store/index.js'
import { defineTask, type TaskContext, Worker, type WorkerOptions } from '../task/index.js'

/** An event that is to be published once the transaction that tells of it is committed. */
export interface OutboxEvent extends Omit<NewMessage, 'id' | 'body'> {
  /** What consumers know it by. Default: an id of its own, the same each time it is published. */
  readonly id?: string
  /** Events with the same key are published in the order in which they were committed. Without one, there is no order. */
  readonly key?: string
  readonly body: string
}

/** A store that takes tasks within a transaction of the caller's own: on SQLite, or on PostgreSQL. */
export interface OutboxStore<Tx, Added> extends Store {
  enqueueIn(tx: Tx, tasks: readonly NewTask[]): Added
}

/** How a relay works: as a worker does, whose only task is to publish. */
export interface RelayOptions extends Omit<WorkerOptions, 'tasks' | 'categories'> {
  /** Laid over the relay's own: what fails is published again until it is through, after 100 ms and up to 30 s. */
  readonly policy?: PolicyInput
}

/** The category of the events that have a key: their lanes are ordered, and those of the others are not. */
const ORDERED = 'ordered'

/** While an event waits, so do those after it; but what is given up is missing where it should have arrived. */
const UNTIL_PUBLISHED = /* @__PURE__ */ extendPolicy(policies.task, {
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '100ms', max: '30s' },
  jitter: 'equal',
  timeout: '5m',
  giveUpOn: [OptionError],
})

/**
 * Publishes events if, and only if, the transaction that tells of them is committed.
 *
 * ```ts
 * const outbox = new Outbox(store)
 * db.transaction(() => {
 *   db.prepare('INSERT INTO orders (id) VALUES (?)').run(42)
 *   outbox.publish(db, { type: 'order.placed', key: 'order-42', body: '{"order":42}' })
 * }).immediate()
 *
 * const relay = outbox.relay(bus)
 * await relay.start()
 * ```
 *
 * An event in the outbox is a task that publishes it, and its key is a lane that is ordered.
 */
export class Outbox<Tx, Added> {
  readonly #store: OutboxStore<Tx, Added>
  readonly #kind: string

  /** Outboxes of other kinds in the same store are apart, each with relays of its own. */
  constructor(store: OutboxStore<Tx, Added>, { kind = 'outbox' }: { readonly kind?: string } = {}) {
    this.#store = store
    this.#kind = kind
  }

  /** Writes an event within a transaction of the caller's own. Returns what `enqueueIn` does: on PostgreSQL, a promise. */
  publish(tx: Tx, { key = '', ...message }: OutboxEvent): Added {
    // The task's id is the store's: among those of one millisecond, it keeps their order.
    const category = key === '' ? '' : ORDERED
    return this.#store.enqueueIn(tx, [{ kind: this.#kind, category, key, payload: JSON.stringify(message) }])
  }

  /** What publishes the events of this outbox. Any number of them, in any processes, may run at once. */
  relay(bus: Pick<Bus, 'publish'>, { policy = {}, ...options }: RelayOptions = {}): Relay {
    const publish = defineTask(this.#kind, {
      policy: extendPolicy(UNTIL_PUBLISHED, policy),
      handler: (event: Omit<OutboxEvent, 'key'>, { id }: TaskContext) => publishOn(bus, { id, ...event }),
    })
    return new Relay(this.#store, this.#kind, new Worker(this.#store, { ...options, tasks: [publish] }))
  }
}

/** Publishes what is in an outbox, each event at least once, and those with the same key in their order. */
export class Relay {
  readonly #store: Store
  readonly #kind: string
  readonly #worker: Worker

  constructor(store: Store, kind: string, worker: Worker) {
    this.#store = store
    this.#kind = kind
    this.#worker = worker
  }

  /** Begins to publish. */
  async start(): Promise<void> {
    await this.#store.limit({ kind: this.#kind, category: ORDERED }, { isOrdered: true })
    await this.#worker.start()
  }

  /** Like `stopped` of its worker: rejects if the store refuses for good. */
  get stopped(): Promise<void> {
    return this.#worker.stopped
  }

  /** Lets publishes that are under way end, and leaves the rest to other relays, or to the next one. */
  stop(): Promise<void> {
    return this.#worker.stop()
  }
}

async function publishOn(bus: Pick<Bus, 'publish'>, message: NewMessage): Promise<void> {
  try {
    await bus.publish(message)
  } catch (failure) {
    // Whoever closed the bus before the relay was stopped: there is nothing wrong with the event.
    if (failure instanceof BusClosedError) throw new RetryableError(failure.message, { code: failure.code })
    throw failure
  }
}
