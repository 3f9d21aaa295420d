import { MemoryIdempotencyStore } from '../../idempotency/index.js'
import { checkOptions, type KnownOptions } from '../../policy/internal.js'
import { type Clock, systemClock } from '../../time/index.js'
import type {
  Beat,
  Claim,
  ClaimedTask,
  ClaimRequest,
  Heartbeat,
  Outcome,
  Settled,
  Settlement,
} from '../contract/claim.js'
import { SETTLED, STALE } from '../contract/claim.js'
import type { Lane, LaneLimits, LaneRecord, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { LaneRules } from '../contract/lane-rule.js'
import type { By, LedgerRow } from '../contract/ledger.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from '../contract/list.js'
import type { OperationStore } from '../contract/operation-store.js'
import type { Prunable } from '../contract/prunable.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { RunStore } from '../contract/run-store.js'
import type { Storable } from '../contract/storable.js'
import type { OnceOptions, PolicyStore, Retention, StoreContract } from '../contract/store.js'
import type { Enqueued, NewTask, TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import type { Transactions } from '../port/steps.js'
import { afterSettlement } from '../rules/after-settlement.js'
import { withGates } from '../rules/budgets/gate-answers.js'
import {
  checkBeat,
  checkBy,
  checkClaim,
  checkCountFields,
  checkDiscard,
  checkFence,
  checkFilter,
  checkIds,
  checkLaneSelection,
  checkLanes,
  checkLimit,
  checkName,
  checkNewTask,
  checkPage,
  checkPause,
  checkRetention,
  checkSettlement,
  checkText,
  checkTime,
} from '../rules/check.js'
import { isWorker } from '../rules/is-worker.js'
import { checkedLimits } from '../rules/lane-limits.js'
import { acted } from '../rules/ledger-change.js'
import { cancelRecord, discardRecord, editRecord, limitRecord, pauseRecord } from '../rules/operator-record.js'
import { markStopped } from '../rules/runs/mark-stopped.js'
import { checkedShared, declarationOf, isShared } from '../rules/shared-limit.js'
import { Operations } from '../verbs/operations.js'
import { cancelTasks, Runs, redriveTasks } from '../verbs/runs.js'
import type { MemoryAuditLog } from './audit-log.js'
import { type MemoryBudgets, scopeNamed } from './budgets.js'
import type { MemoryGroups } from './groups.js'
import { matches } from './lane-rules.js'
import { countTasks, countTasksBy, listTasks } from './list.js'
import { MemoryOnce } from './once.js'
import { isOver } from './prune.js'
import { retriedTasks } from './retried.js'
import { statsOf } from './stats.js'
import { type MemoryTask, standingOf, writeLedger } from './task.js'
import { MemoryTasks } from './tasks.js'
import { memoryTransactions } from './transactions.js'

/** Options of a `MemoryStore`. */
export interface MemoryStoreOptions {
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock | undefined
}

const MEMORY_OPTIONS: KnownOptions<MemoryStoreOptions> = { clock: 'object' }

/**
 * Keeps tasks in this process: for tests, and for work that need not outlive the process. Each verb runs in one go, so it
 * is a transaction by itself.
 */
export class MemoryStore implements StoreContract {
  readonly idempotency: MemoryIdempotencyStore
  /** Policies by their hash. */
  readonly policies: PolicyStore = memoryPolicies()
  /** The audit log. */
  readonly audit: MemoryAuditLog
  /** The runs of pipelines. */
  readonly runs: RunStore
  /** Bulk acts on record. */
  readonly operations: OperationStore
  /** Budgets of kinds, with their gates. */
  readonly budgets: MemoryBudgets
  /** Failures with the same fingerprint. */
  readonly groups: MemoryGroups
  readonly #tasks: MemoryTasks
  readonly #port: Transactions
  readonly #once: MemoryOnce

  constructor(options: MemoryStoreOptions = {}) {
    checkOptions('A memory store', options, MEMORY_OPTIONS)
    const { clock = systemClock } = options
    this.idempotency = new MemoryIdempotencyStore({ clock })
    this.#tasks = new MemoryTasks(clock)
    this.audit = this.#tasks.audit
    this.#port = memoryTransactions(this.#tasks.tx)
    this.runs = new Runs(this.#port, () => this.#tasks.ring())
    this.operations = new Operations(this.#port, () => this.#tasks.ring())
    this.budgets = this.#tasks.budgets
    this.groups = this.#tasks.groups
    this.#once = new MemoryOnce(this.idempotency, ({ id, token }) => this.#tasks.task(id)?.lease?.token === token)
  }

  async now(): Promise<number> {
    return this.#tasks.now()
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    tasks.forEach(checkNewTask)
    const now = this.#tasks.now()
    const enqueued = tasks.map(task => this.#tasks.add(task, now))
    if (enqueued.some(({ isNew }) => isNew)) this.#tasks.ring()
    return enqueued
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    checkClaim(request)
    const { worker, leaseMs, rooms } = request
    const now = this.#tasks.now()
    this.#tasks.workers.renew(worker, leaseMs)
    const tasks: ClaimedTask[] = []
    const gates = this.budgets.openGates(now)
    this.budgets.letRetriesThrough(now)
    this.#tasks.queue.claim(request, now, gates, task => {
      const token = this.#tasks.start(task, worker, now)
      tasks.push({ ...task.record, token, isFirst: task.ledger.length === 0, isUndecided: task.isUndecided })
    })
    this.budgets.passed(gates, now)
    const isAloneWaiting = this.#tasks.queue.isAloneWaiting(rooms, now, gates)
    const nextAt = Math.min(
      this.#tasks.queue.nextAt(rooms, now),
      this.budgets.nextLook(gates, now),
      this.budgets.nextRetryAt(now),
    )
    return { tasks, now, nextAt: nextAt === Infinity ? undefined : nextAt, isAloneWaiting }
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    settlements.forEach(checkSettlement)
    const now = this.#tasks.now()
    this.#tasks.runs.takeStopped()
    const answers = settlements.map(({ id, token, outcome, attempt, used }): Settled => {
      const task = this.#tasks.task(id)
      if (task?.lease?.token !== token) return repeatedAnswer(task, token, outcome)
      const { worker } = task.lease
      if (used !== undefined) this.#tasks.correct(task, used, now)
      const after = afterSettlement(standingOf(task), outcome, attempt, now)
      this.#tasks.end(task, after, now)
      return after.advance === undefined ? SETTLED : this.#tasks.goOn(task, after.advance, { worker, token }, now)
    })
    const stopped = markStopped(
      answers,
      this.#tasks.runs.takeStopped(),
      n => this.#tasks.task(settlements[n]?.id ?? '')?.lane,
    )
    return withGates(stopped, this.budgets.takeChanges())
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    checkBeat(beat)
    const { worker, leaseMs } = beat
    this.#tasks.workers.renew(worker, leaseMs)
    this.#tasks.workers.report(worker, beat)
    const rescued = this.#tasks.rescue()
    return { cancelled: await this.cancelled(worker), rescued }
  }

  async cancelled(worker: string): Promise<string[]> {
    checkName('worker', worker)
    return this.#tasks.workers
      .tasksOf(worker)
      .flatMap(({ isToBeCancelled, lease }) => (isToBeCancelled && lease ? [lease.token] : []))
  }

  async leave(worker: string): Promise<void> {
    checkName('worker', worker)
    const now = this.#tasks.now()
    for (const task of this.#tasks.workers.tasksOf(worker))
      this.#tasks.end(task, afterSettlement(standingOf(task), { type: 'released' }, undefined, now), now)
    this.#tasks.workers.remove(worker)
  }

  async workers(): Promise<WorkerRecord[]> {
    return this.#tasks.workers.live()
  }

  async get(id: string): Promise<TaskRecord | undefined> {
    checkName('id', id)
    const task = this.#tasks.task(id)
    return task && recordOf(task)
  }

  async standing(id: string, limit: number): Promise<TaskStanding | undefined> {
    checkName('id', id)
    checkPage({ limit })
    const task = this.#tasks.task(id)
    if (task === undefined) return undefined
    const { record, lane, cost, lease, isUndecided, isToBeCancelled, budget } = task
    const now = this.#tasks.now()
    const isDue = (record.nextAttemptAt ?? Infinity) <= now
    return {
      now,
      task: recordOf(task),
      lane: lane.toRecord(now),
      before: isDue ? Math.min(limit, this.#tasks.readyBefore(task, now)) : undefined,
      worker: lease && { name: lease.worker, until: this.#tasks.workers.leaseOf(lease.worker) },
      isUndecided,
      isToBeCancelled,
      retryBudget: budget === undefined ? undefined : scopeNamed(budget),
      behindRetry: lane.isOrdered ? [...lane.budgeted].find(other => other !== task)?.record.id : undefined,
      ...lane.bounds(cost, now),
    }
  }

  async list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>> {
    checkFilter(filter)
    checkPage(page)
    return listTasks(this.#records(), filter, page)
  }

  async count(filter: TaskFilter): Promise<Record<TaskStatus, number>> {
    checkFilter(filter)
    return countTasks(this.#records(), filter)
  }

  async stats(): Promise<StoreStats> {
    const now = this.#tasks.now()
    const isGated = (lane: Lane) => this.budgets.isGated(lane)
    const kinds = statsOf(this.#tasks.lanes, this.#tasks.tasks.values(), isGated, now)
    return { now, workers: this.#tasks.workers.live().filter(isWorker).length, kinds }
  }

  async countBy(filter: TaskFilter, fields: readonly CountField[]): Promise<TaskCount[]> {
    checkFilter(filter)
    checkCountFields(fields)
    return countTasksBy(this.#records(), filter, fields)
  }

  async retried(since: number, page: PageRequest): Promise<Page<RetriedTask>> {
    checkTime('since', since)
    checkPage(page)
    return retriedTasks(this.#tasks.tasks.values(), since, page)
  }

  async ledger(id: string): Promise<LedgerRow[]> {
    checkName('id', id)
    return [...(this.#tasks.task(id)?.ledger ?? [])]
  }

  async ledgers(ids: readonly string[]): Promise<LedgerRow[][]> {
    checkIds(ids)
    return ids.map(id => [...(this.#tasks.task(id)?.ledger ?? [])])
  }

  async payloads(ids: readonly string[]): Promise<(string | undefined)[]> {
    checkIds(ids)
    return ids.map(id => this.#tasks.task(id)?.record.payload)
  }

  async redrive(ids: readonly string[], by: By): Promise<string[]> {
    checkIds(ids)
    checkName('who', by?.who)
    checkBy(by)
    const moved = await this.#port.write(tx => redriveTasks(tx, ids, by, this.#tasks.now()))
    if (moved.length > 0) this.#tasks.ring()
    return moved
  }

  async cancel(ids: readonly string[], by?: By): Promise<string[]> {
    checkIds(ids)
    checkBy(by)
    const cancelled = await this.#port.write(function* (tx) {
      const now = yield* tx.clock.now()
      const ending = yield* cancelTasks(tx, ids, by, now)
      if (by !== undefined) yield* tx.audit.append(cancelRecord(ending, by, now), now)
      return ending
    })
    if (cancelled.length > 0) this.#tasks.ring()
    return cancelled
  }

  async discard(ids: readonly string[], by: Required<By>): Promise<string[]> {
    checkIds(ids)
    checkDiscard(by)
    const now = this.#tasks.now()
    const discarded = this.#tasks.discard(ids, by, now)
    this.audit.add(discardRecord(discarded, by, now))
    return discarded
  }

  async edit(id: string, payload: string, by: By): Promise<boolean> {
    checkName('id', id)
    checkText('payload', payload)
    checkName('who', by?.who)
    checkBy(by)
    const now = this.#tasks.now()
    const task = this.#tasks.task(id)
    if (task === undefined || task.lane.hasItems) return false
    if (task.record.status !== 'waiting' && task.record.status !== 'dead') return false
    writeLedger(task, acted('edited', by, now, { payload: task.record.payload }), undefined)
    task.record = { ...task.record, payload }
    this.audit.add(editRecord(id, by, now))
    return true
  }

  async lanes(filter: Partial<Lane> = {}): Promise<LaneRecord[]> {
    checkLanes(filter)
    const now = this.#tasks.now()
    return [...this.#tasks.lanes.all()].filter(lane => matches(filter, lane)).map(lane => lane.toRecord(now))
  }

  async pause(
    lanes: LaneSelection,
    { isPaused, who, why }: { readonly isPaused: boolean } & Partial<By>,
  ): Promise<void> {
    checkLaneSelection(lanes)
    checkPause({ isPaused, who, why })
    const now = this.#tasks.now()
    const by = who === undefined ? undefined : { who, ...(why !== undefined && { why }) }
    this.#tasks.lanes.pause(lanes, { isPaused, at: now, by })
    if (by !== undefined) this.audit.add(pauseRecord(lanes, isPaused, by, now))
    if (!isPaused) this.#tasks.ring()
  }

  async laneRules(filter: Partial<Lane> = {}): Promise<LaneRules> {
    checkLanes(filter)
    return this.#tasks.lanes.rules(filter)
  }

  async limit(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by?: By): Promise<void> {
    checkLaneSelection(lanes)
    checkBy(by)
    const checked = isShared(limits) ? checkedShared(lanes, limits) : checkedLimits(limits)
    if (!this.#tasks.isNews(declarationOf(lanes, limits))) return
    if (isShared(checked)) this.#tasks.lanes.share(lanes, checked)
    else this.#tasks.lanes.limit(lanes, checked)
    if (by !== undefined) this.audit.add(limitRecord(lanes, checked, by, this.#tasks.now()))
    this.#tasks.ring()
  }

  async once<T>(key: string, work: (tx: never) => T & Storable<T>, options: OnceOptions = {}): Promise<Awaited<T>> {
    checkFence(options)
    return this.#once.run(key, work, options)
  }

  async prunable(keep: Retention): Promise<Prunable> {
    checkRetention(keep)
    const now = this.#tasks.now()
    const { auditMs, keysMs } = keep
    const over = [...this.#tasks.tasks.values()].filter(
      ({ record, lane }) => !lane.hasItems && isOver(record, keep, now),
    )
    const deadLetters = over.filter(({ record }) => record.status === 'dead').length
    return {
      tasks: over.length - deadLetters,
      deadLetters,
      ...this.#tasks.runs.prunable(keep),
      keys: keysMs === undefined ? 0 : this.idempotency.prunable(keysMs),
      records:
        auditMs === undefined ? 0 : this.audit.prunable(now - auditMs) + this.#tasks.operations.prunable(now - auditMs),
    }
  }

  async prune(keep: Retention, limit: number): Promise<number> {
    checkRetention(keep)
    checkLimit(limit)
    const now = this.#tasks.now()
    let left = limit
    for (const { record, lane } of this.#tasks.tasks.values()) {
      if (left === 0) break
      if (lane.hasItems || !isOver(record, keep, now)) continue
      this.#tasks.forget(record.id)
      left--
    }
    this.#tasks.lanes.forgetIdle(this.#tasks.tasks.values(), now)
    left -= this.#tasks.runs.prune(keep, left)
    if (keep.deadMs !== undefined) this.groups.prune(now - keep.deadMs)
    if (keep.keysMs !== undefined) left -= this.idempotency.prune(keep.keysMs, left)
    if (keep.auditMs !== undefined) {
      left -= this.audit.prune(now - keep.auditMs, left)
      left -= this.#tasks.operations.prune(now - keep.auditMs, left)
    }
    return limit - left
  }

  watch(callback: () => void): () => void {
    return this.#tasks.watchers.add(callback)
  }

  watchEnd(id: string, callback: () => void): () => void {
    checkName('id', id)
    return this.#tasks.ends.add(id, callback)
  }

  async close(): Promise<void> {
    this.#tasks.watchers.clear()
    this.#tasks.ends.clear()
  }

  *#records(): Iterable<TaskRecord> {
    for (const task of this.#tasks.tasks.values()) yield recordOf(task)
  }
}

/** The task as it is on record, with the budget that it waits under. */
function recordOf({ record, budget }: MemoryTask): TaskRecord {
  return budget === undefined ? record : { ...record, isBudgeted: true }
}

/** The answer to a settlement whose token does not hold: the same as before, if it repeats the last advance. */
function repeatedAnswer(task: MemoryTask | undefined, token: string, outcome: Outcome): Settled {
  const last = task?.advance
  const isRepeated = outcome.type === 'advanced' && last?.token === token && last.to === outcome.to
  return isRepeated ? last.answer : STALE
}

function memoryPolicies(): PolicyStore {
  const policies = new Map<string, string>()
  return {
    keep: async (hash, policy) => void policies.set(hash, policy),
    get: async hash => policies.get(hash),
  }
}
