import { MemoryIdempotencyStore } from '../../idempotency/index.js'
import { type Clock, systemClock } from '../../time/index.js'
import { checkedLimits } from '../lane-limits.js'
import { cancelRecord, limitRecord, pauseRecord } from '../operator-record.js'
import { oneRoom } from '../rooms.js'
import type {
  AttemptEntry,
  AuditStore,
  Beat,
  By,
  Claim,
  ClaimedTask,
  ClaimRequest,
  Enqueued,
  Heartbeat,
  Lane,
  LaneLimits,
  LaneRecord,
  LaneSelection,
  LedgerRow,
  NewTask,
  OnceOptions,
  Outcome,
  Page,
  PageRequest,
  PolicyStore,
  Retention,
  Settled,
  Settlement,
  Store,
  TaskFilter,
  TaskRecord,
  TaskStatus,
} from '../store.js'
import { SETTLED, STALE } from '../store.js'
import { taskIds } from '../task-id.js'
import { triedForMs } from '../tried-for.js'
import { MemoryAuditLog } from './audit.js'
import type { MemoryHeap } from './heap.js'
import type { MemoryLane } from './lane.js'
import { MemoryLanes, matches } from './lanes.js'
import { countTasks, listTasks } from './list.js'
import { MemoryOnce } from './once.js'
import { afterOutcome, consequence, isAnotherTry, isOver, NO_FAILURES } from './outcome.js'
import { type MemoryTask, scheduledHeap } from './task.js'

interface MemoryWorker {
  /** On the monotonic clock: a lease is a time measured. */
  leaseUntil: number
  readonly tasks: Set<MemoryTask>
}

/**
 * Keeps tasks in this process: for tests, and for work that need not outlive the process. Each verb runs in one go, so
 * that it is a transaction by itself.
 */
export class MemoryStore implements Store {
  readonly idempotency: MemoryIdempotencyStore
  readonly policies: PolicyStore
  readonly audit: AuditStore
  readonly #clock: Clock
  readonly #newId = taskIds()
  readonly #tasks = new Map<string, MemoryTask>()
  readonly #lanes = new MemoryLanes()
  /** By kind, so that a claim touches only what it asked for. */
  readonly #scheduled = new Map<string, MemoryHeap<MemoryTask>>()
  readonly #workers = new Map<string, MemoryWorker>()
  readonly #once: MemoryOnce
  readonly #auditRecords = new MemoryAuditLog()
  readonly #watchers = new Set<{ readonly callback: () => void }>()
  #isCallingWatchers = false

  constructor({ clock = systemClock }: { readonly clock?: Clock } = {}) {
    this.#clock = clock
    this.idempotency = new MemoryIdempotencyStore({ clock })
    this.policies = memoryPolicies()
    this.audit = {
      append: async records => this.#auditRecords.append(records, clock.now()),
      page: async page => this.#auditRecords.page(page),
    }
    this.#once = new MemoryOnce(this.idempotency, ({ id, token }) => this.#tasks.get(id)?.lease?.token === token)
  }

  async now(): Promise<number> {
    return this.#clock.now()
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    const now = this.#clock.now()
    const enqueued = tasks.map(task => this.#add(task, now))
    if (enqueued.some(({ isNew }) => isNew)) this.#callWatchers()
    return enqueued
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    const { worker, leaseMs, limit, isIdle } = request
    const { kinds, categories } = oneRoom(request)
    const now = this.#clock.now()
    const { tasks: own } = this.#renew(worker, leaseMs)
    const isAllowed = (lane: MemoryLane) =>
      kinds.includes(lane.kind) && (categories === undefined || categories.includes(lane.category))
    for (const kind of kinds) this.#makeReady(kind, now)

    const tasks: ClaimedTask[] = []
    const alone = isIdle && limit > 0 ? this.#lanes.firstAlone(isAllowed, now)?.alone.pop() : undefined
    for (const task of alone ? [alone] : this.#lanes.take(limit, isAllowed, now)) {
      const token = crypto.randomUUID()
      task.record = { ...task.record, status: 'running', nextAttemptAt: undefined, changedAt: now }
      task.lease = { worker, token }
      task.lane.start(now)
      own.add(task)
      tasks.push({ ...task.record, token, isUndecided: task.isUndecided })
    }
    const isAloneWaiting = this.#lanes.firstAlone(isAllowed, now) !== undefined
    return { tasks, now, nextAt: this.#nextAt(kinds, isAllowed, now), isAloneWaiting }
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const now = this.#clock.now()
    return settlements.map(({ id, token, outcome, attempt }) => {
      const task = this.#tasks.get(id)
      if (task?.lease?.token !== token) return STALE
      this.#settle(task, outcome, attempt, now)
      return SETTLED
    })
  }

  async heartbeat({ worker, leaseMs }: Beat): Promise<Heartbeat> {
    const { tasks } = this.#renew(worker, leaseMs)
    const rescued = this.#rescue()
    const cancelled = [...tasks].flatMap(({ isToBeCancelled, lease }) =>
      isToBeCancelled && lease ? [lease.token] : [],
    )
    return { cancelled, rescued }
  }

  async leave(worker: string): Promise<void> {
    const now = this.#clock.now()
    for (const task of this.#workers.get(worker)?.tasks ?? []) this.#settle(task, { type: 'released' }, undefined, now)
    this.#workers.delete(worker)
  }

  async get(id: string): Promise<TaskRecord | undefined> {
    return this.#tasks.get(id)?.record
  }

  async list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>> {
    return listTasks(this.#records(), filter, page)
  }

  async count(filter: TaskFilter): Promise<Record<TaskStatus, number>> {
    return countTasks(this.#records(), filter)
  }

  async ledger(id: string): Promise<LedgerRow[]> {
    return [...(this.#tasks.get(id)?.ledger ?? [])]
  }

  async redrive(ids: readonly string[], by: By): Promise<string[]> {
    const now = this.#clock.now()
    const moved: string[] = []
    for (const id of ids) {
      const task = this.#tasks.get(id)
      if (task?.record.status !== 'dead') continue
      const { losses } = task.record
      const waiting = { status: 'waiting', nextAttemptAt: now, startedAt: now, changedAt: now } as const
      task.record = { ...task.record, ...NO_FAILURES, losses, reason: undefined, ...waiting }
      const row = { attempt: 0, startedAt: now, endedAt: now, worker: by.who }
      this.#write(task, row, { outcome: 'redriven', delayMs: undefined, reason: by.why })
      this.#queue(task, now)
      moved.push(id)
    }
    if (moved.length > 0) this.#callWatchers()
    return moved
  }

  async cancel(ids: readonly string[], by?: By): Promise<string[]> {
    const now = this.#clock.now()
    const cancelled = new Set<string>()
    for (const id of ids) {
      const task = this.#tasks.get(id)
      if (task?.record.status === 'waiting') {
        task.record = afterOutcome(task.record, { type: 'cancelled' }, undefined, 0, now)
        cancelled.add(id)
      } else if (task?.record.status === 'running') {
        task.isToBeCancelled = true
        cancelled.add(id)
      }
    }
    if (by !== undefined) this.#auditRecords.append([cancelRecord([...cancelled], by, now)], now)
    return [...cancelled]
  }

  async lanes(filter: Partial<Lane> = {}): Promise<LaneRecord[]> {
    const now = this.#clock.now()
    return [...this.#lanes.all()].filter(lane => matches(filter, lane)).map(lane => lane.toRecord(now))
  }

  async pause(
    lanes: LaneSelection,
    { isPaused, who, why }: { readonly isPaused: boolean } & Partial<By>,
  ): Promise<void> {
    const now = this.#clock.now()
    this.#lanes.pause(lanes, isPaused)
    if (who !== undefined) this.#auditRecords.append([pauseRecord(lanes, isPaused, { who, why }, now)], now)
    if (!isPaused) this.#callWatchers()
  }

  async limit(lanes: LaneSelection, limits: LaneLimits, by?: By): Promise<void> {
    const now = this.#clock.now()
    const checked = checkedLimits(limits)
    this.#lanes.limit(lanes, checked)
    if (by !== undefined) this.#auditRecords.append([limitRecord(lanes, checked, by, now)], now)
    this.#callWatchers()
  }

  once<T>(key: string, work: (tx: never) => T, options: OnceOptions = {}): Promise<Awaited<T>> {
    return this.#once.run(key, work, options)
  }

  async prune(keep: Retention, limit: number): Promise<number> {
    const now = this.#clock.now()
    let left = limit
    for (const { record } of this.#tasks.values()) {
      if (left === 0) break
      if (!isOver(record, keep, now)) continue
      this.#tasks.delete(record.id)
      left--
    }
    if (keep.keysMs !== undefined) left -= this.idempotency.prune(keep.keysMs, left)
    if (keep.auditMs !== undefined) left -= this.#auditRecords.prune(now - keep.auditMs, left)
    return limit - left
  }

  watch(callback: () => void): () => void {
    const watcher = { callback }
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  async close(): Promise<void> {
    this.#watchers.clear()
  }

  #add({ kind, category = '', key = '', payload, ...task }: NewTask, now: number): Enqueued {
    const id = task.id ?? this.#newId(now)
    if (this.#tasks.has(id)) return { id, isNew: false }
    const lane = this.#lanes.of({ kind, category, key })
    const record: TaskRecord = {
      id,
      kind,
      category,
      key,
      payload,
      status: 'waiting',
      priority: task.priority ?? 0,
      submittedAt: task.submittedAt ?? lane.submittedAt(now),
      startedAt: now - triedForMs(task),
      nextAttemptAt: task.runAt ?? now,
      ...NO_FAILURES,
      reason: undefined,
      result: undefined,
      changedAt: now,
    }
    lane.added(record)
    const added = { record, lane, ledger: [], dueAt: now, lease: undefined, isUndecided: false, isToBeCancelled: false }
    this.#tasks.set(id, added)
    if (task.tried === undefined) this.#queue(added, now)
    else {
      lane.running++
      this.#settle(added, task.tried.outcome, task.tried.attempt, now)
    }
    return { id, isNew: true }
  }

  /** Ends a run. Where the task would wait again though it is to be cancelled, it ends. */
  #settle(task: MemoryTask, asked: Outcome, attempt: AttemptEntry | undefined, now: number): void {
    const outcome: Outcome = task.isToBeCancelled && isAnotherTry(asked) ? { type: 'cancelled' } : asked
    const isDecision = task.isUndecided
    const claimedAt = task.record.changedAt
    if (outcome.type !== 'released') task.isUndecided = false
    if (isDecision) this.#tellLost(task, outcome, attempt)
    else if (attempt !== undefined && outcome.type !== 'released')
      this.#write(task, attempt, { outcome: outcome.type, ...consequence(outcome) })

    task.record = afterOutcome(task.record, outcome, attempt, attempt !== undefined && !isDecision ? 1 : 0, now)
    this.#endRun(task)
    task.lane.end(claimedAt, outcome, now)
    if (task.record.status === 'waiting') this.#queue(task, now, task.lane.isOrdered)
    if (task.record.status === 'waiting' || task.lane.isBounded) this.#callWatchers()
  }

  /** Gives the tasks of workers whose lease has run out back, each with its lost attempt on record. */
  #rescue(): number {
    const now = this.#clock.now()
    let rescued = 0
    for (const [worker, { leaseUntil, tasks }] of this.#workers) {
      if (leaseUntil > this.#clock.monotonic()) continue
      for (const task of tasks) {
        this.#lose(task, worker, now)
        rescued++
      }
      this.#workers.delete(worker)
    }
    return rescued
  }

  #lose(task: MemoryTask, worker: string, now: number): void {
    // A claim for a decision started nothing, so that nothing was lost.
    if (!task.isUndecided) {
      const attempts = task.record.attempts + 1
      const row = { attempt: attempts, startedAt: task.record.changedAt, endedAt: now, worker }
      this.#write(task, row, { outcome: 'lost', delayMs: undefined, reason: undefined })
      task.record = { ...task.record, attempts, losses: task.record.losses + 1 }
      task.isUndecided = true
    }
    this.#settle(task, { type: 'released' }, undefined, now)
  }

  #tellLost(task: MemoryTask, outcome: Outcome, attempt: AttemptEntry | undefined): void {
    const row = task.ledger.pop()
    if (row === undefined) return
    const { verdict, error, random, policy } = attempt ?? row
    task.ledger.push({ ...row, verdict, error, random, policy, ...consequence(outcome) })
  }

  #write(task: MemoryTask, attempt: AttemptEntry, row: Pick<LedgerRow, 'outcome' | 'delayMs' | 'reason'>): void {
    task.ledger.push({ ...attempt, ...row, sequence: task.ledger.length + 1 })
  }

  #endRun(task: MemoryTask): void {
    if (task.lease !== undefined) this.#workers.get(task.lease.worker)?.tasks.delete(task)
    task.lease = undefined
    task.isToBeCancelled = false
  }

  /** Ready before its time only in a lane that is held until then, so that it keeps its place there. */
  #queue(task: MemoryTask, now: number, keepsPlace = false): void {
    task.dueAt = task.record.nextAttemptAt ?? now
    if (task.dueAt <= now || keepsPlace) this.#lanes.addReady(task)
    else this.#scheduledOf(task.record.kind).push(task)
  }

  #makeReady(kind: string, now: number): void {
    const scheduled = this.#scheduled.get(kind)
    for (let task = scheduled?.peek(); task !== undefined && task.dueAt <= now; task = scheduled?.peek()) {
      scheduled?.pop()
      this.#lanes.addReady(task)
    }
  }

  #nextAt(kinds: readonly string[], isAllowed: (lane: MemoryLane) => boolean, now: number): number | undefined {
    const due = kinds.map(kind => this.#scheduled.get(kind)?.peek()?.record.nextAttemptAt ?? Infinity)
    const next = Math.min(...due, this.#lanes.nextOpening(isAllowed, now))
    return next === Infinity ? undefined : next
  }

  #scheduledOf(kind: string): MemoryHeap<MemoryTask> {
    const heap = this.#scheduled.get(kind) ?? scheduledHeap()
    this.#scheduled.set(kind, heap)
    return heap
  }

  #renew(worker: string, leaseMs: number): MemoryWorker {
    const known = this.#workers.get(worker) ?? { leaseUntil: 0, tasks: new Set() }
    known.leaseUntil = this.#clock.monotonic() + leaseMs
    this.#workers.set(worker, known)
    return known
  }

  *#records(): Iterable<TaskRecord> {
    for (const { record } of this.#tasks.values()) yield record
  }

  /** Once for all that happens in one go, and after it: what a watcher does is not part of the verb. */
  #callWatchers(): void {
    if (this.#isCallingWatchers) return
    this.#isCallingWatchers = true
    queueMicrotask(() => {
      this.#isCallingWatchers = false
      for (const { callback } of this.#watchers) callback()
    })
  }
}

function memoryPolicies(): PolicyStore {
  const policies = new Map<string, string>()
  return {
    keep: async (hash, policy) => void policies.set(hash, policy),
    get: async hash => policies.get(hash),
  }
}
