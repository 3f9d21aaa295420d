import { hostname } from 'node:os'
import { type Outage, Outages, persist, UNTIL_ANSWERED } from '../attempt/index.js'
import { type Classifier, canonicalJson, type Duration, type Policy, RedriveError } from '../policy/index.js'

import {
  type Claim,
  type ClaimedTask,
  type ClaimRequest,
  type GateChange,
  type Heartbeat,
  runsAlone,
  type Settlement,
  type StoreContract,
  type WorkerReport,
} from '../store/internal.js'
import type { Sink } from '../telemetry/index.js'
import { type Clock, queueClock } from '../time/index.js'
import { BatchDuty } from './batch-duty.js'
import { Bell } from './bell.js'
import { CancelWatch } from './cancel-watch.js'
import { Drain, type DrainOptions, type DrainResult } from './drain.js'
import { Duties, type Duty } from './duties.js'
import { Ending } from './ending.js'
import { LeaseLostError, WorkerStoppedError } from './errors.js'
import { ExpiryDuty } from './expiry-duty.js'
import { GroupingDuty } from './grouping/grouping-duty.js'
import { Janitor, type RetentionOptions } from './janitor.js'
import { OperationDuty } from './operations/operation-duty.js'
import type { OutsideTarget } from './operations/outside-work.js'
import { OwnPolicies } from './own-policies.js'
import { Pulse } from './pulse.js'
import { releaseOf } from './release.js'
import { Rooms } from './rooms.js'
import { RunKeeper } from './run-keeper.js'
import { ScheduleDuty } from './schedule-duty.js'
import { Settler } from './settler.js'
import { StageFlow } from './stage-flow.js'
import { StepRecords } from './steps/step-records.js'
import { type ClaimTimes, liveNotes, TaskAttempt, type TaskEnvironment } from './task-attempt.js'
import { toMs } from './to-ms.js'
import type { WorkKind } from './work-kind.js'
import { WorkerNews } from './worker-news.js'

/** Settings of a worker, but for its work. */
export interface EngineSettings {
  /**
   * How many tasks it runs at once. Default 10. The stages of pipelines have a concurrency of their own, and so have tasks
   * that are called together.
   */
  readonly concurrency?: number | undefined
  /**
   * Slots of `concurrency` that only tasks of a kind may use, such as `{ 'send-email': 2 }`: however many tasks of other
   * kinds hang, these stay free for it. Default: none.
   */
  readonly reserve?: Readonly<Record<string, number>> | undefined
  /** The categories that it runs. Default: all. */
  readonly categories?: readonly string[] | undefined
  /** How long its tasks stay its own after its last heartbeat. Default 30 s. */
  readonly lease?: Duration | undefined
  /** How long `stop()` waits for running tasks before it hands them back. Default 10 s. */
  readonly grace?: Duration | undefined
  /** How long the store keeps ended work. Default: for ever. */
  readonly retention?: RetentionOptions | undefined
  /** Its name on record. No two workers may share one. Default: generated. */
  readonly name?: string | undefined
  /**
   * The version of your application, for the record of each attempt. Default: the environment variable REDRIVE_RELEASE,
   * or the version in the package.json of the program.
   */
  readonly release?: string | undefined
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier | undefined
  /** Receives the work events of its tasks. */
  readonly sink?: Sink | undefined
  /** Called when the store stops answering, and when it answers again. The worker retries until then. */
  readonly onOutage?: ((outage: Outage) => void) | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
}

/** Options of an engine. */
export interface EngineOptions extends EngineSettings {
  /** Reaches members of operations outside of the store. */
  readonly outside?: OutsideTarget
  /** Whether it carries out operations. Default: true. */
  readonly isDriver?: boolean
}

/** It looks for due work this often, even if nothing should be due: the clock may have been set, or the machine have slept. */
const LONGEST_WAIT_MS = 60_000

/** The number of handlers that its report names which go on although they were told to end. */
const MAX_OVERRUNS = 100

/**
 * Runs kinds of work from a store. It is in one of these modes:
 *
 * - **claiming**: while it has room, it asks the store for as many tasks as it can start at once, and starts them.
 * - **waiting**: it has no room, or there was nothing to claim. It waits until a task ends, the store says that there is
 *   something new, or the time comes that the last claim named.
 * - **behind**: too many attempts have ended that the store does not have on record. It claims nothing until the store has
 *   caught up.
 * - **making room**: a task waits that must run alone, because workers died of it. It claims nothing until everything
 *   that is running has ended; then that task runs alone.
 * - **paused**: its code has said so. It claims nothing and starts nothing until its code lets it go on; what is running goes on.
 * - **stopping**: it claims nothing any more. Running tasks may end within the grace period; the rest is handed back.
 *
 * Most tasks share one number of places, and run as soon as they are claimed. Each stage of a pipeline has places of its
 * own, and so have tasks that are called together. Some of those are for work that waits in this process for its turn:
 * `StageFlow` moves it.
 *
 * Settlements are written in batches, together with the next claim, so that both share a transaction.
 */
export class Engine {
  readonly name: string
  /** The version of the application, as it reports it. */
  readonly release: string | undefined
  /** The rules by which it groups failures. */
  readonly grouping: GroupingDuty
  /** The runs whose items it works on. */
  readonly runs: RunKeeper
  readonly #store: StoreContract
  readonly #rooms: Rooms
  readonly #flow: StageFlow
  readonly #leaseMs: number
  readonly #graceMs: number
  readonly #clock: Clock
  readonly #bell: Bell
  readonly #ending = new Ending(() => this.#end())
  readonly #outages: Outages
  readonly #settler: Settler
  readonly #janitor: Janitor
  readonly #pulse: Pulse
  readonly #duties: Duties
  readonly #cancelWatch: CancelWatch
  readonly #environment: TaskEnvironment
  readonly #attempts = new Set<TaskAttempt>()
  readonly #policies = new OwnPolicies((hash, policy) => this.#keep(hash, policy))
  readonly #news: WorkerNews
  readonly #schedules: ScheduleDuty
  readonly #expiry: ExpiryDuty
  readonly #batches: BatchDuty
  /** Set if it runs only what is due. */
  #drain: Drain | undefined
  #isMakingRoom = false
  #isPaused = false
  #concurrency: number
  #isBehind = false
  /** Whether the store has changed since the last claim was sent. */
  #hasChanged = false
  #unwatch: () => void = () => {}
  #starting: Promise<void> | undefined
  #looping: Promise<void> | undefined

  /** `duties` are further ones, of whoever makes it. */
  constructor(store: StoreContract, kinds: readonly WorkKind[], options: EngineOptions, duties: readonly Duty[] = []) {
    const { concurrency = 10, name, release = releaseOf(), clock = queueClock, sink, classify } = options
    this.name = name ?? `${hostname()}-${process.pid}-${crypto.randomUUID().slice(0, 8)}`
    this.release = release
    this.#store = store
    this.#concurrency = concurrency
    this.#rooms = new Rooms(kinds, concurrency, options.categories, options.reserve)
    this.#leaseMs = toMs('lease', options.lease ?? '30s', 1)
    this.#graceMs = toMs('grace', options.grace ?? '10s')
    this.#clock = clock
    this.#bell = new Bell(clock)
    this.#news = new WorkerNews(this.name, clock, sink)
    this.#outages = new Outages(options.onOutage, () => this.#ending.hasBegun)
    this.#settler = new Settler(store, clock, this.#outages, {
      onAnswer: (settlement, answer, sentAt) => {
        if (answer.gates !== undefined) this.#gatesChanged(answer.gates)
        this.#flow.answered(settlement, answer, sentAt)
        this.#batches.settled(settlement.id, settlement.outcome)
      },
      onLocked: settlement => {
        this.#flow.locked(settlement)
        // The stage that it was to go to has a place for another.
        this.#bell.ring()
      },
      onSettled: () => {
        // Once everything is on record, a run or a drain may be over: see whether there is more to claim.
        const mayBeOver = this.#drain !== undefined || this.#rooms.pipelines.size > 0
        if (this.#isBehind || (mayBeOver && this.#isIdle)) this.#bell.ring()
        this.runs.batchSettled()
        this.#batches.allSettled()
      },
    })
    this.grouping = new GroupingDuty(store, this.name)
    const operations = new OperationDuty(store, this.name, kinds, clock, options.outside)
    this.#schedules = new ScheduleDuty(store.schedules, clock, slot => this.#news.slotEnded(slot))
    this.#batches = new BatchDuty(() => store.batches, clock)
    const drivers = options.isDriver === false ? [] : [operations, this.#schedules]
    this.#expiry = new ExpiryDuty(store, this.name, this.#rooms.kinds, { clock, sink })
    this.#duties = new Duties([...drivers, this.grouping, this.#expiry, this.#batches, ...duties])
    this.#janitor = new Janitor(store, clock, options.retention ?? {})
    const kindNames = [...new Set(this.#rooms.kinds.map(({ kind }) => kind))]
    const report = { release, kinds: kindNames, categories: options.categories, host: hostname() }
    const beat = { worker: this.name, leaseMs: this.#leaseMs, ...report }
    this.#pulse = new Pulse(store, () => ({ ...beat, ...this.#report() }), this.#leaseMs, clock, {
      onBeat: heartbeat => this.#onBeat(heartbeat),
      onLeaseLost: wasBlocked => {
        this.#news.leaseLost(this.#attempts.size)
        this.#flow.release()
        for (const attempt of this.#attempts) attempt.callOff(new LeaseLostError(this.name, wasBlocked))
      },
      onMissed: failure => this.#outages.began(failure),
      onRecovered: () => this.#outages.ended(),
      onRefused: failure => this.#ending.fail(failure),
    })
    this.#cancelWatch = new CancelWatch(store, this.name, clock, tokens => this.#cancel(tokens))
    const settle = (attempt: TaskAttempt, settlement: Settlement) => this.#settle(attempt, settlement)
    const steps = new StepRecords(store, clock, this.#outages)
    this.#environment = { worker: this.name, release, grouping: this.grouping, steps, clock, sink, classify, settle }
    this.runs = new RunKeeper(
      () => store.runs,
      this.#rooms.pipelines,
      clock,
      run => this.#flow.follow(run),
    )
    this.#flow = new StageFlow(this.#rooms, this.runs, {
      isOpen: () => !(this.#ending.hasBegun || this.#isMakingRoom || this.#isPaused),
      run: (task, kind, claim) => this.#run(task, kind, claim),
      settle: settlement => this.#add(settlement),
      monotonic: () => clock.monotonic(),
    })
  }

  /** How many settlements came too late. */
  get stale(): number {
    return this.#settler.stale
  }

  /** Resolves when it has stopped. Rejects if it cannot go on. */
  get stopped(): Promise<void> {
    return this.#ending.over
  }

  start(): Promise<void> {
    if (this.#ending.hasBegun) return Promise.reject(this.#isStopped())
    this.#starting ??= this.#getReady().catch(failure => {
      this.#starting = undefined
      throw failure
    })
    return this.#starting
  }

  stop(): Promise<void> {
    return this.#ending.stop()
  }

  get concurrency(): number {
    return this.#concurrency
  }

  set concurrency(concurrency: number) {
    this.#rooms.resize(concurrency)
    this.#concurrency = concurrency
    this.#bell.ring()
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  set isPaused(isPaused: boolean) {
    if (isPaused === this.#isPaused) return
    this.#isPaused = isPaused
    if (isPaused) this.#flow.release()
    this.#bell.ring()
    // So that others see it before the next beat is due.
    this.#pulse.hurry()
  }

  /** Runs what is due, and stops. Rejects if it was started already, and if it cannot go on. */
  async drain(options: DrainOptions): Promise<DrainResult> {
    if (this.#starting !== undefined) throw this.#hasStarted()
    const drain = new Drain(options, this.#clock)
    this.#drain = drain
    try {
      await this.start()
      const ended = await Promise.race([drain.over, this.stopped.then(() => 'stopped' as const)])
      await this.stop()
      return drain.result(ended)
    } finally {
      drain.close()
    }
  }

  async #getReady(): Promise<void> {
    await this.grouping.load()
    await this.#pulse.beat()
    for (const { policy, policyHash, prepare } of this.#rooms.kinds) {
      await this.#store.policies.keep(policyHash, canonicalJson(policy))
      await prepare?.()
    }
    await this.#expiry.declare()
    if (this.#ending.hasBegun) throw this.#isStopped()
    this.#pulse.start()
    if (this.#rooms.pipelines.size > 0) this.runs.start()
    this.#janitor.start()
    if (this.#drain !== undefined) await this.#schedules.fired()
    this.#looping = this.#loop()
  }

  async #loop(): Promise<void> {
    this.#unwatch = this.#store.watch(() => {
      this.#hasChanged = true
      this.#bell.ring()
      if (this.#attempts.size > 0) this.#cancelWatch.ring()
    })
    try {
      while (!this.#ending.hasBegun) await this.#bell.wait(await this.#turn())
    } catch (failure) {
      this.#ending.fail(failure)
    }
  }

  /** Claims as much as there is room for, and starts it. Returns how long there is nothing more to do. */
  async #turn(): Promise<number> {
    // Attempts that end in the same turn of the event loop are settled in the same batch.
    await new Promise(resolve => setImmediate(resolve))
    this.#settler.flush().catch(failure => this.#ending.fail(failure))
    if (this.#isIdle) this.#isMakingRoom = false
    // A claim need not wait until everything is on record, but the backlog of settlements must not grow without end.
    this.#isBehind = this.#settler.unsettled > this.#rooms.maxUnsettled
    // Before a drain ends: the last task of a batch may have ended, and another one follows.
    if (this.#isDrained) await this.#batches.finish()
    const wasQuiet = this.#isQuiet
    const { rooms, limit } = this.#freeRooms()
    this.#hasChanged = false
    const claimed = limit > 0 ? await this.#claim(rooms, limit) : undefined
    if (claimed === undefined) return Infinity
    const { tasks, now, nextAt, isAloneWaiting } = claimed.claim
    this.#drain?.answered(claimed.claim, wasQuiet)
    // An empty claim need not write anything.
    if (tasks.length > 0) this.#pulse.renewed(claimed.sentAt)
    await this.#beginAll(tasks, { now, sentAt: claimed.sentAt })
    // A task may have been cancelled between its claim and the answer to it.
    if (this.#hasChanged && tasks.length > 0) this.#cancelWatch.ring()
    if (isAloneWaiting || tasks.some(runsAlone)) this.#makeRoom()
    if (tasks.length === limit || this.#rooms.hasFilledReserve(rooms, tasks)) return 0
    if (tasks.length === 0 && this.#isQuiet) this.runs.idle()
    if (nextAt === undefined) return Infinity
    return Math.min(Math.max(1, nextAt - now), LONGEST_WAIT_MS)
  }

  /** Where it may start tasks, and how many. */
  #freeRooms(): ReturnType<Rooms['free']> {
    if (this.#isQuiet) this.#drain?.quiet()
    const { rooms, limit } = this.#rooms.free(this.#attempts.size, kind => this.#runningOf(kind))
    if (this.#isMakingRoom || this.#isBehind || this.#isPaused) return { rooms, limit: 0 }
    return { rooms, limit: Math.min(limit, this.#drain?.places ?? limit) }
  }

  #runningOf(kind: string): number {
    let count = 0
    for (const { task } of this.#attempts) if (task.kind === kind) count++
    return count
  }

  get #isIdle(): boolean {
    return this.#attempts.size === 0 && this.#rooms.areOwnEmpty
  }

  /** Set if it runs only what is due, and holds nothing. */
  get #isDrained(): boolean {
    return this.#drain !== undefined && this.#isQuiet
  }

  /** Whether nothing is running, and everything is on record. */
  get #isQuiet(): boolean {
    return this.#isIdle && this.#settler.unsettled === 0
  }

  #makeRoom(): void {
    this.#isMakingRoom = !this.#isIdle
    if (this.#isMakingRoom) this.#flow.release()
  }

  /** Asks the store until it answers; `undefined` once the engine stops. */
  #claim(
    rooms: ClaimRequest['rooms'],
    limit: number,
  ): Promise<{ readonly claim: Claim; readonly sentAt: number } | undefined> {
    const request = { worker: this.name, leaseMs: this.#leaseMs, limit, rooms, isIdle: this.#isIdle }
    const ask = async () => {
      if (this.#ending.hasBegun) return undefined
      const sentAt = this.#clock.monotonic()
      return { claim: await this.#store.claim(request), sentAt }
    }
    return persist(ask, UNTIL_ANSWERED, { clock: this.#clock, outages: this.#outages })
  }

  /** Brings a policy to the store: until that answers, or the engine stops and hands back what it has claimed. */
  #keep(hash: string, policy: Policy): Promise<unknown> {
    const ask = () =>
      this.#store.policies.keep(hash, canonicalJson(policy)).catch(failure => {
        if (!this.#ending.hasBegun) throw failure
      })
    return persist(ask, UNTIL_ANSWERED, { clock: this.#clock, outages: this.#outages })
  }

  async #beginAll(tasks: readonly ClaimedTask[], claim: ClaimTimes): Promise<void> {
    if (tasks.some(({ policy }) => policy !== undefined))
      await this.#policies.learn(tasks, task => this.#rooms.ownRoom(task)?.kind ?? this.#rooms.sharedKind(task))
    for (const task of tasks) this.#begin(task, claim)
  }

  #begin(task: ClaimedTask, claim: ClaimTimes): void {
    const { id, token, isUndecided } = task
    // It was stopped or paused while it waited for the answer to its claim.
    if ((this.#ending.hasBegun || this.#isPaused) && !isUndecided)
      return this.#add({ id, token, outcome: { type: 'released' } })
    const room = this.#rooms.ownRoom(task)
    if (room === undefined) this.#run(task, this.#rooms.sharedKind(task), claim)
    else this.#flow.enter(room, task, claim)
  }

  #run(task: ClaimedTask, kind: WorkKind, claim: ClaimTimes): void {
    const attempt = new TaskAttempt(task, this.#policies.kindOf(kind, task), claim, this.#environment)
    this.#attempts.add(attempt)
    attempt.start()
  }

  #settle(attempt: TaskAttempt, settlement: Settlement): void {
    this.#attempts.delete(attempt)
    this.#drain?.settled(attempt.task, settlement.outcome)
    const room = this.#rooms.ownRoom(attempt.task)
    this.#add(room === undefined ? settlement : this.#flow.leave(room, attempt.task, settlement))
  }

  #add(settlement: Settlement): void {
    this.#settler.add(settlement)
    this.#bell.ring()
  }

  /** The part of its report that changes. */
  #report(): WorkerReport {
    const overruns = [...this.#attempts].filter(({ isOverrunning }) => isOverrunning).map(({ task }) => task.id)
    return {
      grouping: this.grouping.rules.grouping,
      overruns: overruns.slice(0, MAX_OVERRUNS),
      isPaused: this.#isPaused,
      notes: liveNotes(this.#attempts),
    }
  }

  #onBeat({ cancelled, rescued }: Heartbeat): void {
    this.#news.beat()
    this.#cancel(cancelled)
    this.#duties.beat()
    if (rescued > 0) this.#bell.ring()
  }

  #gatesChanged(gates: readonly GateChange[]): void {
    for (const change of gates) {
      // Items that wait for a slot have not started, and must not.
      if (change.gate.state !== 'closed') this.#flow.release()
      this.#news.gateChanged(change)
    }
  }

  #cancel(tokens: readonly string[]): void {
    if (tokens.length > 0) this.#flow.cancel(tokens)
    for (const attempt of this.#attempts) if (tokens.includes(attempt.task.token)) attempt.cancel()
  }

  async #end(): Promise<void> {
    this.#janitor.stop()
    const dutiesOver = this.#duties.stop()
    this.runs.stop()
    this.#flow.release()
    this.#bell.ring()
    // A start that is under way stops by itself, and leaves nothing behind.
    await this.#starting?.catch(() => {})
    try {
      await this.#looping
      await this.#grace()
    } finally {
      this.#unwatch()
      this.#cancelWatch.stop()
      for (const attempt of this.#attempts) attempt.release(new WorkerStoppedError(this.name))
      await this.#settler.end().finally(() => this.#pulse.stop())
    }
    await this.runs.finish()
    await this.#batches.finish()
    await dutiesOver
    // Nothing that it knows of is left with it, so its lease may as well run out.
    await this.#store.leave(this.name).catch(() => {})
  }

  async #grace(): Promise<void> {
    const endsAt = this.#clock.monotonic() + this.#graceMs
    for (let leftMs = this.#graceMs; leftMs > 0 && this.#attempts.size > 0; leftMs = endsAt - this.#clock.monotonic()) {
      // Not awaited: a store that is away does not prolong the grace period.
      this.#settler.flush().catch(failure => this.#ending.fail(failure))
      await this.#bell.wait(leftMs)
    }
  }

  #hasStarted(): RedriveError {
    const advice = 'Call drain() in place of start(), once for each worker.'
    return new RedriveError('worker_started', `The worker '${this.name}' was started already. ${advice}`)
  }

  #isStopped(): RedriveError {
    return new RedriveError(
      'worker_stopped',
      `The worker '${this.name}' was stopped, and cannot start again. Create another.`,
    )
  }
}
