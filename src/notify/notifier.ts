import { hostname } from 'node:os'
import type { Outage } from '../attempt/index.js'
import { type Duty, DutyWarnings, Engine, toMs } from '../engine/internal.js'
import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { NewTask, Store } from '../store/index.js'
import { contractOf, type StoreContract } from '../store/internal.js'
import { defineTask } from '../task/index.js'
import { taskKind } from '../task/internal.js'
import type { Sink } from '../telemetry/index.js'
import { type Clock, queueClock } from '../time/index.js'
import { gateOpened } from './gate-opened.js'
import { newGroup } from './new-group.js'
import { messageId, type Notice, type Notification } from './notice.js'
import type { Occasion } from './occasion.js'
import { oldestAge } from './oldest-age.js'
import { operationEnded } from './operation-ended.js'
import { regressed } from './regressed.js'
import { slotsMissed } from './slots-missed.js'
import type { Target } from './target.js'

/** Options of `notify`. */
export interface NotifyOptions {
  /** Where messages go: made by `slack()` or `webhook()`. */
  readonly to: Target | readonly Target[]
  /** Tell when work fails in a way that was not seen before, or that was fixed: of failure groups. Default: true. */
  readonly groups?: boolean | undefined
  /** Tell when the oldest ready task of a kind has waited for longer than this. Default: never. */
  readonly oldestAge?: Duration | undefined
  /** Tell when a failure budget has stopped a kind. Default: true. */
  readonly gates?: boolean | undefined
  /** Tell when an operation is done, or has stopped. Default: true. */
  readonly operations?: boolean | undefined
  /** Tell when slots of a schedule were missed, and are not caught up. Default: true. */
  readonly schedules?: boolean | undefined
  /** How often to look. Default 30 s. */
  readonly every?: Duration | undefined
  /** How often to repeat a message about something that lasts, such as an age. Default 1 h. */
  readonly repeat?: Duration | undefined
  /** Receives the work events of the deliveries. */
  readonly sink?: Sink | undefined
  /** Called when the store stops answering, and when it answers again. */
  readonly onOutage?: ((outage: Outage) => void) | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
}

const NOTIFY_OPTIONS: KnownOptions<NotifyOptions> = {
  to: 'object',
  groups: '',
  oldestAge: '',
  gates: '',
  operations: '',
  schedules: '',
  every: '',
  repeat: '',
  sink: 'function',
  onOutage: 'function',
  clock: 'object',
}

/** How far back a new notifier reports: older events are skipped. */
const NEWS_MS = 3_600_000

/** Looks overlap, since what is committed late has an earlier time. */
const OVERLAP_MS = 60_000

/** A rate limit holds all messages to its target, so none is obeyed for longer than the longest backoff. */
const DELIVERY = {
  attempts: 15,
  backoff: { base: '1s', max: '10m' },
  maxRetryAfter: '10m',
  timeout: '15s',
} as const

/**
 * Sends messages about a store to people: to Slack, or to a webhook.
 *
 * ```ts
 * const notifier = notify(store, { to: slack(process.env.SLACK_WEBHOOK), oldestAge: '10m' })
 * await notifier.start()
 * ```
 *
 * Any number of processes may run one for the same store. Each message is a task, whose id is that of its subject: so it is
 * sent once, it is retried, and it becomes a dead letter if it cannot be delivered.
 */
export function notify(store: Store, options: NotifyOptions): Notifier {
  checkOptions('notify()', options, NOTIFY_OPTIONS)
  return new Notifier(store, options)
}

/** It renews its lease, and so can look, no less often than a worker does. */
const LONGEST_BEAT_MS = 10_000
const BEATS_PER_LEASE = 3
const BEAT_SLACK_MS = 100

const LOOK = 'look for messages to send'

/** Checks a store periodically, and delivers messages about it. */
export class Notifier {
  readonly #store: StoreContract
  readonly #clock: Clock
  readonly #targets: readonly Target[]
  readonly #occasions: readonly Occasion[]
  readonly #everyMs: number
  readonly #repeatMs: number
  readonly #engine: Engine
  readonly #warnings = new DutyWarnings()
  /** When it last looked, on the store's clock. */
  #lookedAt: number | undefined
  /** When the last look began, on the monotonic clock. */
  #beganAt = -Infinity
  #looking: Promise<void> | undefined

  constructor(store: Store, options: NotifyOptions) {
    const { to, clock = queueClock, sink, onOutage } = options
    this.#store = contractOf(store)
    this.#clock = clock
    this.#targets = checkedTargets(to)
    this.#occasions = occasionsOf(options)
    this.#everyMs = toMs('every', options.every ?? '30s', 1)
    this.#repeatMs = toMs('repeat', options.repeat ?? '1h', 1)
    const tasks = this.#targets.map(target =>
      defineTask(kindOf(target), {
        policy: DELIVERY,
        handler: (message: Notification, { signal }) => target.send(message, signal),
      }),
    )
    const name = `notifier-${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`
    const lease = Math.min(this.#everyMs, LONGEST_BEAT_MS) * BEATS_PER_LEASE
    const kinds = tasks.map(task => taskKind(task, this.#store))
    // It knows no schemas, and would redrive letters that a worker leaves alone.
    const engine = { name, lease, concurrency: 2, clock, sink, onOutage, isDriver: false }
    this.#engine = new Engine(this.#store, kinds, engine, [this.#duty()])
  }

  /** Starts to check and to deliver. Resolves after the first check. Rejects if the store cannot be reached. */
  async start(): Promise<void> {
    this.#beganAt = this.#clock.monotonic()
    await this.#engine.start()
    await this.look()
  }

  /** Resolves when it has stopped. Rejects if the store refuses for good. */
  get stopped(): Promise<void> {
    return this.#engine.stopped
  }

  /** Stops checking. Undelivered messages stay in the store, for the next notifier. */
  async stop(): Promise<void> {
    await this.#engine.stop()
  }

  /** Looks whenever it is time to, beside the deliveries. */
  #duty(): Duty {
    return {
      beat: () => {
        const now = this.#clock.monotonic()
        // Beats come a little early or late.
        if (this.#looking !== undefined || now - this.#beganAt < this.#everyMs - BEAT_SLACK_MS) return
        this.#beganAt = now
        this.#looking = this.look()
          .then(
            () => this.#warnings.succeeded(LOOK),
            // The store is looked at again later.
            failure => this.#warnings.failed(LOOK, failure),
          )
          .finally(() => {
            this.#looking = undefined
          })
      },
      stop: async () => this.#looking,
    }
  }

  /** Checks once, and enqueues the messages that are due. */
  async look(): Promise<void> {
    const now = await this.#store.now()
    // A last look that lies ahead was made before the clock was set back.
    const since = this.#lookedAt === undefined ? now - NEWS_MS : Math.min(this.#lookedAt, now) - OVERLAP_MS
    const look = { store: this.#store, now, since, isFirst: this.#lookedAt === undefined }
    const found = await Promise.all(this.#occasions.map(occasion => occasion(look)))
    for (const notice of found.flat()) await this.#tell(notice, now)
    this.#lookedAt = now
  }

  async #tell(notice: Notice, now: number): Promise<void> {
    const { type, text, facts, lasts = false } = notice
    const nth = lasts ? Math.floor(now / this.#repeatMs) : undefined
    if (nth !== undefined && (await this.#wasTold(messageId(notice, nth - 1), now))) return
    const message: Notification = { id: messageId(notice, nth), type, at: new Date(now).toISOString(), text, facts }
    await this.#store.enqueue(this.#targets.map(target => taskOf(target, message)))
  }

  /** Whether the message was sent less than `repeat` ago. */
  async #wasTold(id: string, now: number): Promise<boolean> {
    const [target] = this.#targets
    const told = target && (await this.#store.get(taskId(target, id)))
    return told !== undefined && now - told.submittedAt < this.#repeatMs
  }
}

/** The list of all occasions. */
function occasionsOf(options: NotifyOptions): Occasion[] {
  const { groups = true, oldestAge: limit, gates = true, operations = true, schedules = true } = options
  return [
    ...(groups ? [newGroup, regressed] : []),
    ...(limit === undefined ? [] : [oldestAge(toMs('oldestAge', limit, 1))]),
    ...(gates ? [gateOpened] : []),
    ...(operations ? [operationEnded()] : []),
    ...(schedules ? [slotsMissed] : []),
  ]
}

/** Each target has a kind of its own, so that only processes that know its URL take its messages. */
function kindOf({ name }: Target): string {
  return `notify:${name}`
}

function taskId(target: Target, message: string): string {
  return `${kindOf(target)}:${message}`
}

function taskOf(target: Target, message: Notification): NewTask {
  return { kind: kindOf(target), id: taskId(target, message.id), payload: JSON.stringify(message) }
}

/** Not by its class: the configuration of a project may have another copy of this package. */
function isTarget(target: unknown): target is Target {
  if (typeof target !== 'object' || target === null) return false
  return typeof Reflect.get(target, 'name') === 'string' && typeof Reflect.get(target, 'send') === 'function'
}

function checkedTargets(to: NotifyOptions['to']): readonly Target[] {
  const targets = [to].flat()
  if (targets.length === 0 || !targets.every(isTarget))
    throw new OptionError('to', `'to' must be what slack() or webhook() returns, or a list of these.`)
  const odd = targets.find(({ name }) => !/^[\w.-]{1,60}$/.test(name))
  if (odd !== undefined)
    throw new OptionError('name', `A target is named with letters, digits and _.- (at most 60), got '${odd.name}'.`)
  const twice = targets.find(({ name }, n) => targets.findIndex(target => target.name === name) < n)
  if (twice !== undefined)
    throw new OptionError('to', `Two targets are called '${twice.name}'. Give one of them another 'name'.`)
  return targets
}
