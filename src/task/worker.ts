import { hostname } from 'node:os'
import { type Classifier, canonicalJson, type Duration, OptionError, RedriveError } from '../policy/index.js'
import type { Claim, ClaimedTask, Settlement, Store } from '../store/index.js'
import type { Sink } from '../telemetry/index.js'
import { type Clock, queueClock, type Sleeper, type Timer } from '../time/index.js'
import { Bell } from './bell.js'
import type { TaskDefinition } from './define-task.js'
import { Ending } from './ending.js'
import { LeaseLostError, WorkerStoppedError } from './errors.js'
import { Janitor, type RetentionOptions } from './janitor.js'
import { type Outage, Outages } from './outages.js'
import { isForGood, persistently } from './persistently.js'
import { Settler } from './settler.js'
import { type RunEnvironment, TaskRun } from './task-run.js'
import { toMs } from './to-ms.js'

/** How a worker works. */
export interface WorkerOptions {
  /** What it runs: kinds that are not among these are left to others. */
  readonly tasks: readonly TaskDefinition[]
  /** How many tasks it runs at once. Default 10. */
  readonly concurrency?: number
  /** Only these categories; absent: all of them. */
  readonly categories?: readonly string[]
  /** How long its tasks stay its own after its last sign of life. Default 30 s. */
  readonly lease?: Duration
  /** How long `stop()` waits for what is running before it hands it back. Default 10 s. */
  readonly grace?: Duration
  /** How long the store keeps what is over. Default: for ever. */
  readonly retention?: RetentionOptions
  /** Who it is; made up, if it is absent. No two workers may share a name. */
  readonly name?: string
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier
  /** Takes the events of its tasks. */
  readonly sink?: Sink
  /** Told when the store does not answer, and when it does again. The worker asks until then. */
  readonly onOutage?: (outage: Outage) => void
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
}

/** Three signs of life per lease: two may be missed. */
const BEATS_PER_LEASE = 3

/** So often it looks for what should be due by now: the clock may have been set, or the machine have slept. */
const LONGEST_WAIT_MS = 60_000

/**
 * Runs the tasks of a store.
 *
 * - **claiming**: while it has room, it asks the store for as many tasks as it can start at once, and starts them.
 * - **waiting**: with nothing to claim or no room, until a task ends, the store says there is something new, or the time
 *   comes that the last claim named.
 * - **behind**: more has ended than the store has on record, by as many as it runs at once. Nothing is claimed until it has
 *   caught up.
 * - **making room**: a task waits that must run alone, since a worker died of it before. Nothing is claimed until all that
 *   is running has ended; then that one runs alone.
 * - **stopping**: nothing is claimed any more. What is running may end within the grace period; the rest is handed back.
 *
 * What runs came to is settled in batches, together with the next claim, so that both share a transaction.
 */
export class Worker implements Sleeper {
  /** Who it is, on record. */
  readonly name: string
  private readonly definitions: ReadonlyMap<string, TaskDefinition>
  private readonly runs = new Set<TaskRun>()
  private readonly clock: Clock
  private readonly bell: Bell
  private readonly ending = new Ending(() => this.end())
  private readonly outages: Outages
  private readonly settler: Settler
  private readonly janitor: Janitor
  private readonly environment: RunEnvironment
  private readonly leaseMs: number
  private readonly graceMs: number
  private readonly concurrency: number
  private isMakingRoom = false
  private isBehind = false
  /** When the last sign of life that the store took was sent. */
  private aliveAt = 0
  private isUnheard = false
  private beat: Timer | undefined = undefined
  private starting: Promise<void> | undefined = undefined
  private looping: Promise<void> | undefined = undefined

  constructor(
    private readonly store: Store,
    private readonly options: WorkerOptions,
  ) {
    const { tasks, concurrency = 10, name, clock = queueClock, sink, classify } = options
    if (!(Number.isInteger(concurrency) && concurrency >= 1)) {
      throw new OptionError('concurrency', `'concurrency' must be a whole number, 1 or more, got ${concurrency}.`)
    }
    this.name = name ?? `${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`
    this.definitions = byKind(tasks)
    this.concurrency = concurrency
    this.leaseMs = toMs('lease', options.lease ?? '30s', 1)
    this.graceMs = toMs('grace', options.grace ?? '10s')
    this.clock = clock
    this.bell = new Bell(clock)
    this.outages = new Outages(options.onOutage, this.ending)
    this.settler = new Settler(store, clock, this.outages, () => {
      if (this.isBehind) this.bell.ring()
    })
    this.janitor = new Janitor(store, clock, options.retention ?? {})
    this.environment = {
      store,
      worker: this.name,
      clock,
      sink,
      classify,
      settle: (run, settlement) => this.ended(run, settlement),
    }
  }

  /** How many settlements came too late, since another worker had taken the task by then. */
  get stale(): number {
    return this.settler.stale
  }

  /**
   * Resolves when it has stopped. Rejects if it cannot go on, since the store refuses for good, as one that is damaged does.
   * A process that does not look at it ends of that, as of every rejection that nobody handles.
   */
  get stopped(): Promise<void> {
    return this.ending.over
  }

  /**
   * Begins to work. Resolves when it is ready, and rejects when the store cannot be reached: then it may be called again. It
   * rejects too once the worker was stopped.
   */
  start(): Promise<void> {
    this.starting ??= this.getReady().catch(failure => {
      this.starting = undefined
      throw failure
    })
    return this.starting
  }

  /** Stops claiming, lets running tasks end within the grace period, hands the rest back, and leaves. */
  stop(): Promise<void> {
    return this.ending.stop()
  }

  /** It is time for a sign of life. */
  wake(): void {
    // A process that stood still, or a store that was away, is noticed here.
    if (this.clock.monotonic() - this.aliveAt >= this.leaseMs) {
      for (const run of this.runs) run.warn(new LeaseLostError(this.name))
    }
    this.heartbeat()
      .then(
        () => this.heard(),
        failure => this.unheard(failure),
      )
      .finally(() => this.armBeat())
  }

  private async getReady(): Promise<void> {
    this.checkNotStopped()
    await this.heartbeat()
    for (const { policy, policyHash } of this.definitions.values()) {
      await this.store.policies.keep(policyHash, canonicalJson(policy))
    }
    this.checkNotStopped()
    this.armBeat()
    this.janitor.start()
    this.looping = this.loop()
  }

  private async loop(): Promise<void> {
    const unwatch = this.store.watch(() => this.bell.ring())
    try {
      while (!this.ending.hasBegun) await this.bell.wait(await this.turn())
    } catch (failure) {
      this.ending.fail(failure)
    } finally {
      unwatch()
    }
  }

  /** Claims what there is room for and starts it. Returns for how long there is nothing more to do. */
  private async turn(): Promise<number> {
    // What ends in the same turn of the event loop is settled in the same batch.
    await new Promise(resolve => setImmediate(resolve))
    this.settler.flush().catch(failure => this.ending.fail(failure))
    if (this.runs.size === 0) this.isMakingRoom = false
    // A claim need not wait until all is on record; but what has ended and is not must not become ever more.
    this.isBehind = this.settler.unsettled > this.concurrency
    const room = this.isMakingRoom || this.isBehind ? 0 : this.concurrency - this.runs.size
    const claim = room > 0 && !this.ending.hasBegun ? await this.claim(room) : undefined
    if (claim === undefined) return Infinity
    for (const task of claim.tasks) this.begin(task, claim.now)
    if (claim.isAloneWaiting || claim.tasks.some(task => task.losses > 0)) this.isMakingRoom = this.runs.size > 0
    if (claim.tasks.length === room) return 0
    if (claim.nextAt === undefined) return Infinity
    return Math.min(Math.max(1, claim.nextAt - claim.now), LONGEST_WAIT_MS)
  }

  private claim(limit: number): Promise<Claim | undefined> {
    const { name: worker, leaseMs, options } = this
    const kinds = [...this.definitions.keys()]
    const rooms = [{ kinds, categories: options.categories }]
    const request = { worker, leaseMs, rooms, limit, isIdle: this.runs.size === 0 }
    const ask = async () => (this.ending.hasBegun ? undefined : this.store.claim(request))
    return persistently(ask, this.clock, this.outages)
  }

  private begin(task: ClaimedTask, now: number): void {
    const definition = this.definitions.get(task.kind)
    if (definition === undefined)
      throw new Error(`The store gave out a task of kind '${task.kind}', which was not asked for.`)
    const run = new TaskRun(task, definition, this.environment, now)
    this.runs.add(run)
    run.start()
  }

  private ended(run: TaskRun, settlement: Settlement): void {
    this.runs.delete(run)
    this.settler.add(settlement)
    this.bell.ring()
  }

  private async end(): Promise<void> {
    this.janitor.stop()
    this.bell.ring()
    // What is being started stops there, and leaves nothing behind.
    await this.starting?.catch(() => {})
    try {
      await this.looping
      await this.graceful()
    } finally {
      for (const run of this.runs) run.release(new WorkerStoppedError(this.name))
      await this.settler.flush().finally(() => this.disarmBeat())
    }
    await this.store.leave(this.name)
  }

  private async graceful(): Promise<void> {
    const endsAt = this.clock.monotonic() + this.graceMs
    for (let leftMs = this.graceMs; leftMs > 0 && this.runs.size > 0; leftMs = endsAt - this.clock.monotonic()) {
      // Not waited for: a store that is away does not make the grace period longer.
      this.settler.flush().catch(failure => this.ending.fail(failure))
      await this.bell.wait(leftMs)
    }
  }

  private checkNotStopped(): void {
    if (!this.ending.hasBegun) return
    throw new RedriveError(
      'worker_stopped',
      `The worker '${this.name}' was stopped, and does not start again: make another.`,
    )
  }

  private armBeat(): void {
    if (this.ending.hasBegun && this.runs.size === 0) return
    this.beat = this.clock.setTimer(this, this.leaseMs / BEATS_PER_LEASE)
  }

  private disarmBeat(): void {
    if (this.beat !== undefined) this.clock.clearTimer(this.beat)
  }

  private heard(): void {
    if (this.isUnheard) this.outages.ended()
    this.isUnheard = false
  }

  /** The store did not take its sign of life. The next one comes in time, unless there is no use. */
  private unheard(failure: unknown): void {
    if (isForGood(failure, this.clock)) return void this.ending.fail(failure)
    if (!this.isUnheard) this.outages.began(failure)
    this.isUnheard = true
  }

  private async heartbeat(): Promise<void> {
    const sentAt = this.clock.monotonic()
    const { cancelled, rescued } = await this.store.heartbeat({ worker: this.name, leaseMs: this.leaseMs })
    this.aliveAt = sentAt
    for (const run of this.runs) if (cancelled.includes(run.task.token)) run.cancel()
    if (rescued > 0) this.bell.ring()
  }
}

function byKind(tasks: readonly TaskDefinition[]): ReadonlyMap<string, TaskDefinition> {
  const definitions = new Map(tasks.map(task => [task.kind, task]))
  const twice = tasks.find(task => definitions.get(task.kind) !== task)
  if (twice !== undefined) throw new OptionError('tasks', `Two of the tasks are of the kind '${twice.kind}'.`)
  return definitions
}
