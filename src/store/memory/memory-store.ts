import { MemoryIdempotencyStore } from '../../idempotency/index.js'
import { checkOptions, type KnownOptions } from '../../policy/internal.js'
import { type Clock, systemClock } from '../../time/index.js'
import {
  type Advance,
  type After,
  afterDiscard,
  afterLoss,
  afterRedrive,
  afterSettlement,
  runsAlone,
} from '../after-settlement.js'
import { isCovering } from '../budgets/claim-gates.js'
import { withGates } from '../budgets/gate-answers.js'
import { MAX_HELD_SEEN } from '../budgets/retry-allowance.js'
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
} from '../check.js'
import type { Beat, Claim, ClaimedTask, ClaimRequest, Heartbeat, Outcome, Settled, Settlement } from '../claim.js'
import { SETTLED, STALE } from '../claim.js'
import { EndWatchers } from '../end-watchers.js'
import type { Lane, LaneLimits, LaneRecord, LaneSelection, SharedLimits } from '../lane.js'
import { checkedLimits } from '../lane-limits.js'
import type { LaneRules } from '../lane-rule.js'
import type { By, LedgerRow } from '../ledger.js'
import { acted } from '../ledger-change.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from '../list.js'
import { memberTally } from '../operations/member-tally.js'
import { diedUntil, type OperationState } from '../operations/operation-rules.js'
import { cancelRecord, discardRecord, editRecord, limitRecord, pauseRecord } from '../operator-record.js'
import type { Prunable } from '../prunable.js'
import type { RetryYield } from '../retry-yield.js'
import { markStopped } from '../runs/mark-stopped.js'
import { checkedShared, declarationOf, isShared } from '../shared-limit.js'
import type { OnceOptions, PolicyStore, Retention, Store } from '../store.js'
import type { Cost, Enqueued, NewTask, TaskRecord, TaskStatus } from '../task.js'
import { taskIds } from '../task-id.js'
import type { TaskStanding } from '../task-standing.js'
import type { WorkerRecord } from '../worker-store.js'
import { MemoryAuditLog } from './audit-log.js'
import { MemoryBudgets, scopeNamed } from './budgets.js'
import { MemoryGroups } from './groups.js'
import type { MemoryItems } from './items.js'
import { matches } from './lane-rules.js'
import { countTasks, countTasksBy, listTasks } from './list.js'
import { MemoryOnce } from './once.js'
import { MemoryOperations } from './operations.js'
import { isOver } from './prune.js'
import { MemoryQueue } from './queue.js'
import { deathOf, MemoryRuns } from './runs.js'
import { statsOf } from './stats.js'
import { goesBefore, type Lease, type MemoryTask, newTask, standingOf, writeLedger } from './task.js'
import { MemoryWatchers } from './watchers.js'
import { isWorker, MemoryWorkers } from './workers.js'
import { yieldsOf } from './yields.js'

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
export class MemoryStore implements Store {
  readonly idempotency: MemoryIdempotencyStore
  /** Policies by their hash. */
  readonly policies: PolicyStore = memoryPolicies()
  /** The audit log. */
  readonly audit: MemoryAuditLog
  /** The runs of pipelines. */
  readonly runs: MemoryRuns
  /** Bulk acts on record. */
  readonly operations: MemoryOperations
  /** Budgets of kinds, with their gates. */
  readonly budgets: MemoryBudgets
  /** Failures with the same fingerprint. */
  readonly groups: MemoryGroups
  readonly #clock: Clock
  readonly #newId = taskIds()
  readonly #tasks = new Map<string, MemoryTask>()
  readonly #queue = new MemoryQueue()
  readonly #workers: MemoryWorkers
  readonly #watchers = new MemoryWatchers()
  readonly #ends = new EndWatchers()
  readonly #once: MemoryOnce
  /** The last declaration of limits, by the lanes that it is about. */
  readonly #declared = new Map<string, string>()

  constructor(options: MemoryStoreOptions = {}) {
    checkOptions('A memory store', options, MEMORY_OPTIONS)
    const { clock = systemClock } = options
    this.#clock = clock
    this.#workers = new MemoryWorkers(clock)
    this.audit = new MemoryAuditLog(() => this.#now())
    this.idempotency = new MemoryIdempotencyStore({ clock })
    this.groups = new MemoryGroups({
      now: () => this.#now(),
      releases: () => this.#workers.live().flatMap(({ release }) => release ?? []),
      record: record => this.audit.add(record),
      task: id => this.#tasks.get(id),
    })
    this.runs = new MemoryRuns(this.#items(), () => this.#now())
    this.operations = new MemoryOperations(
      {
        tasks: this.#tasks,
        act: (operation, ids, now) => this.#act(operation, ids, now),
        restore: (task, after, changedAt, now) => this.#restore(task, after, changedAt, now),
        record: record => this.audit.add(record),
      },
      () => this.#now(),
    )
    this.budgets = new MemoryBudgets({
      now: () => this.#now(),
      isNews: declaration => this.#isNews(declaration),
      letThrough: (budget, most, now) => this.#queue.letThrough(budget, most, now),
      nextBudgeted: budget => this.#queue.nextBudgeted(budget),
      heldBy: (budget, now) => this.#heldBy(budget, now),
      rebudget: (kind, now) => this.#rebudget(kind, now),
      isRunning: scope => [...this.#queue.lanes.all()].some(lane => lane.running > 0 && isCovering(scope, lane)),
      record: record => this.audit.add(record),
      ring: () => this.#watchers.ring(),
    })
    this.#once = new MemoryOnce(this.idempotency, ({ id, token }) => this.#tasks.get(id)?.lease?.token === token)
  }

  async now(): Promise<number> {
    return this.#now()
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    tasks.forEach(checkNewTask)
    const now = this.#now()
    const enqueued = tasks.map(task => this.#add(task, now))
    if (enqueued.some(({ isNew }) => isNew)) this.#watchers.ring()
    return enqueued
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    checkClaim(request)
    const { worker, leaseMs, rooms } = request
    const now = this.#now()
    this.#workers.renew(worker, leaseMs)
    const tasks: ClaimedTask[] = []
    const gates = this.budgets.openGates(now)
    this.budgets.letRetriesThrough(now)
    this.#queue.claim(request, now, gates, task => {
      const token = this.#start(task, worker, now)
      tasks.push({ ...task.record, token, isFirst: task.ledger.length === 0, isUndecided: task.isUndecided })
    })
    this.budgets.passed(gates, now)
    const isAloneWaiting = this.#queue.isAloneWaiting(rooms, now, gates)
    const nextAt = Math.min(
      this.#queue.nextAt(rooms, now),
      this.budgets.nextLook(gates, now),
      this.budgets.nextRetryAt(now),
    )
    return { tasks, now, nextAt: nextAt === Infinity ? undefined : nextAt, isAloneWaiting }
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    settlements.forEach(checkSettlement)
    const now = this.#now()
    this.runs.takeStopped()
    const answers = settlements.map(({ id, token, outcome, attempt, used }): Settled => {
      const task = this.#tasks.get(id)
      if (task?.lease?.token !== token) return repeatedAnswer(task, token, outcome)
      const { worker } = task.lease
      if (used !== undefined) this.#correct(task, used, now)
      const after = afterSettlement(standingOf(task), outcome, attempt, now)
      this.#end(task, after, now)
      return after.advance === undefined ? SETTLED : this.#goOn(task, after.advance, { worker, token }, now)
    })
    const stopped = markStopped(answers, this.runs.takeStopped(), n => this.#tasks.get(settlements[n]?.id ?? '')?.lane)
    return withGates(stopped, this.budgets.takeChanges())
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    checkBeat(beat)
    const { worker, leaseMs } = beat
    this.#workers.renew(worker, leaseMs)
    this.#workers.report(worker, beat)
    const rescued = this.#rescue()
    return { cancelled: await this.cancelled(worker), rescued }
  }

  async cancelled(worker: string): Promise<string[]> {
    checkName('worker', worker)
    return this.#workers
      .tasksOf(worker)
      .flatMap(({ isToBeCancelled, lease }) => (isToBeCancelled && lease ? [lease.token] : []))
  }

  async leave(worker: string): Promise<void> {
    checkName('worker', worker)
    const now = this.#now()
    for (const task of this.#workers.tasksOf(worker))
      this.#end(task, afterSettlement(standingOf(task), { type: 'released' }, undefined, now), now)
    this.#workers.remove(worker)
  }

  async workers(): Promise<WorkerRecord[]> {
    return this.#workers.live()
  }

  async get(id: string): Promise<TaskRecord | undefined> {
    checkName('id', id)
    const task = this.#tasks.get(id)
    return task && recordOf(task)
  }

  async standing(id: string, limit: number): Promise<TaskStanding | undefined> {
    checkName('id', id)
    checkPage({ limit })
    const task = this.#tasks.get(id)
    if (task === undefined) return undefined
    const { record, lane, cost, lease, isUndecided, isToBeCancelled, budget } = task
    const now = this.#now()
    const isDue = (record.nextAttemptAt ?? Infinity) <= now
    return {
      now,
      task: recordOf(task),
      lane: lane.toRecord(now),
      before: isDue ? Math.min(limit, this.#readyBefore(task, now)) : undefined,
      worker: lease && { name: lease.worker, until: this.#workers.leaseOf(lease.worker) },
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
    const now = this.#now()
    const isGated = (lane: Lane) => this.budgets.isGated(lane)
    const kinds = statsOf(this.#queue.lanes.all(), this.#tasks.values(), isGated, now)
    return { now, workers: this.#workers.live().filter(isWorker).length, kinds }
  }

  async countBy(filter: TaskFilter, fields: readonly CountField[]): Promise<TaskCount[]> {
    checkFilter(filter)
    checkCountFields(fields)
    return countTasksBy(this.#records(), filter, fields)
  }

  async yields(since: number): Promise<RetryYield[]> {
    checkTime('since', since)
    return yieldsOf(this.#tasks.values(), since)
  }

  async ledger(id: string): Promise<LedgerRow[]> {
    checkName('id', id)
    return [...(this.#tasks.get(id)?.ledger ?? [])]
  }

  async ledgers(ids: readonly string[]): Promise<LedgerRow[][]> {
    checkIds(ids)
    return ids.map(id => [...(this.#tasks.get(id)?.ledger ?? [])])
  }

  async redrive(ids: readonly string[], by: By): Promise<string[]> {
    checkIds(ids)
    checkName('who', by?.who)
    checkBy(by)
    return this.#redrive(ids, by, this.#now())
  }

  async cancel(ids: readonly string[], by?: By): Promise<string[]> {
    checkIds(ids)
    checkBy(by)
    const now = this.#now()
    const cancelled = this.#cancelAll(ids, by, now)
    if (by !== undefined) this.audit.add(cancelRecord(cancelled, by, now))
    return cancelled
  }

  async discard(ids: readonly string[], by: Required<By>): Promise<string[]> {
    checkIds(ids)
    checkDiscard(by)
    const now = this.#now()
    const discarded = this.#discard(ids, by, now)
    this.audit.add(discardRecord(discarded, by, now))
    return discarded
  }

  async edit(id: string, payload: string, by: By): Promise<boolean> {
    checkName('id', id)
    checkText('payload', payload)
    checkName('who', by?.who)
    checkBy(by)
    const now = this.#now()
    const task = this.#tasks.get(id)
    if (task === undefined || task.lane.isOfRun) return false
    if (task.record.status !== 'waiting' && task.record.status !== 'dead') return false
    writeLedger(task, acted('edited', by, now, { payload: task.record.payload }), undefined)
    task.record = { ...task.record, payload }
    this.audit.add(editRecord(id, by, now))
    return true
  }

  async lanes(filter: Partial<Lane> = {}): Promise<LaneRecord[]> {
    checkLanes(filter)
    const now = this.#now()
    return [...this.#queue.lanes.all()].filter(lane => matches(filter, lane)).map(lane => lane.toRecord(now))
  }

  async pause(
    lanes: LaneSelection,
    { isPaused, who, why }: { readonly isPaused: boolean } & Partial<By>,
  ): Promise<void> {
    checkLaneSelection(lanes)
    checkPause({ isPaused, who, why })
    const now = this.#now()
    const by = who === undefined ? undefined : { who, ...(why !== undefined && { why }) }
    this.#queue.lanes.pause(lanes, { isPaused, at: now, by })
    if (by !== undefined) this.audit.add(pauseRecord(lanes, isPaused, by, now))
    if (!isPaused) this.#watchers.ring()
  }

  async laneRules(filter: Partial<Lane> = {}): Promise<LaneRules> {
    checkLanes(filter)
    return this.#queue.lanes.rules(filter)
  }

  async limit(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by?: By): Promise<void> {
    checkLaneSelection(lanes)
    checkBy(by)
    const checked = isShared(limits) ? checkedShared(lanes, limits) : checkedLimits(limits)
    if (!this.#isNews(declarationOf(lanes, limits))) return
    if (isShared(checked)) this.#queue.lanes.share(lanes, checked)
    else this.#queue.lanes.limit(lanes, checked)
    if (by !== undefined) this.audit.add(limitRecord(lanes, checked, by, this.#now()))
    this.#watchers.ring()
  }

  async once<T>(key: string, work: (tx: never) => T, options: OnceOptions = {}): Promise<Awaited<T>> {
    checkFence(options)
    return this.#once.run(key, work, options)
  }

  async prunable(keep: Retention): Promise<Prunable> {
    checkRetention(keep)
    const now = this.#now()
    const { auditMs, keysMs } = keep
    const over = [...this.#tasks.values()].filter(({ record, lane }) => !lane.isOfRun && isOver(record, keep, now))
    const deadLetters = over.filter(({ record }) => record.status === 'dead').length
    return {
      tasks: over.length - deadLetters,
      deadLetters,
      ...this.runs.prunable(keep),
      keys: keysMs === undefined ? 0 : this.idempotency.prunable(keysMs),
      records: auditMs === undefined ? 0 : this.audit.prunable(now - auditMs) + this.operations.prunable(now - auditMs),
    }
  }

  async prune(keep: Retention, limit: number): Promise<number> {
    checkRetention(keep)
    checkLimit(limit)
    const now = this.#now()
    let left = limit
    for (const { record, lane } of this.#tasks.values()) {
      if (left === 0) break
      if (lane.isOfRun || !isOver(record, keep, now)) continue
      this.#forget(record.id)
      left--
    }
    left -= this.runs.prune(keep, left)
    if (keep.deadMs !== undefined) this.groups.prune(now - keep.deadMs)
    if (keep.keysMs !== undefined) left -= this.idempotency.prune(keep.keysMs, left)
    if (keep.auditMs !== undefined) {
      left -= this.audit.prune(now - keep.auditMs, left)
      left -= this.operations.prune(now - keep.auditMs, left)
    }
    return limit - left
  }

  watch(callback: () => void): () => void {
    return this.#watchers.add(callback)
  }

  watchEnd(id: string, callback: () => void): () => void {
    checkName('id', id)
    return this.#ends.add(id, callback)
  }

  async close(): Promise<void> {
    this.#watchers.clear()
    this.#ends.clear()
  }

  /** Notes a declaration of limits. Returns false if it is the same as the last one. */
  #isNews(declaration: ReturnType<typeof declarationOf>): boolean {
    if (declaration === undefined) return true
    const isSame = this.#declared.get(declaration.lanes) === declaration.limits
    this.#declared.set(declaration.lanes, declaration.limits)
    return !isSame
  }

  #add(task: NewTask, now: number): Enqueued {
    const { id = this.#newId(now), kind, category = '', key = '', tried } = task
    if (this.#tasks.has(id)) return { id, isNew: false }
    const added = newTask({ ...task, id }, this.#queue.lanes.of({ kind, category, key }), now)
    this.#tasks.set(id, added)
    added.lane.added(added.record)
    this.#moved(undefined, added, now)
    if (tried === undefined) this.#queue.add(added, now, false)
    else {
      added.lane.start(added.cost, now)
      this.#end(added, afterSettlement(standingOf(added), tried.outcome, tried.attempt, now), now)
    }
    return { id, isNew: true }
  }

  /** Gives dead tasks fresh attempts. Returns the ids that it moved. */
  #redrive(ids: readonly string[], by: By, now: number, operation?: string): string[] {
    return ids.filter(id => {
      const task = this.#tasks.get(id)
      if (task?.record.status !== 'dead') return false
      if (task.lane.isOfRun && this.runs.isCancelling(task.lane.key)) return false
      const death = deathOf(task.record)
      this.#mark(task, operation)
      this.#change(task, afterRedrive(standingOf(task), by, now), now)
      if (task.lane.isOfRun) this.runs.reopen(task.lane.key, [death])
      this.#watchers.ring()
      return true
    })
  }

  #discard(ids: readonly string[], by: Required<By>, now: number, operation?: string): string[] {
    return ids.filter(id => {
      const task = this.#tasks.get(id)
      if (task?.record.status !== 'dead' || task.lane.isOfRun) return false
      this.#mark(task, operation)
      this.#change(task, afterDiscard(standingOf(task), by, now), now)
      return true
    })
  }

  #cancelAll(ids: readonly string[], by: By | undefined, now: number): string[] {
    const cancelled = [...new Set(ids)].filter(id => {
      const task = this.#tasks.get(id)
      return task !== undefined && this.#cancel(task, now, by)
    })
    const runs = cancelled.flatMap(id => this.#tasks.get(id)?.lane ?? []).filter(({ isOfRun }) => isOfRun)
    for (const run of new Set(runs.map(({ key }) => key))) this.runs.itemsCancelled(run, now)
    if (cancelled.length > 0) this.#watchers.ring()
    return cancelled
  }

  /** Does the act of an operation to these tasks, as far as they are in its set. Returns the ids that it moved. */
  #act(operation: OperationState, ids: readonly string[], now: number): string[] {
    const { id, act, by } = operation
    if (act === 'cancel') return this.#cancelAll(ids, by, now)
    const until = diedUntil(operation)
    const dead = ids.filter(one => {
      const task = this.#tasks.get(one)
      // Each member is moved once, though the clock may be set back.
      return task !== undefined && task.record.changedAt <= until && task.record.operation !== id
    })
    return act === 'redrive' ? this.#redrive(dead, by, now, id) : this.#discard(dead, { why: '', ...by }, now, id)
  }

  #mark(task: MemoryTask, operation: string | undefined): void {
    task.record = { ...task.record, operation }
    task.hasAnswered = false
  }

  /** Puts a task back as it was before an operation moved it. A copy takes its place, since its lane's queue has it still. */
  #restore(task: MemoryTask, after: After, changedAt: number, now: number): void {
    const copy = { ...task }
    task.record = { ...task.record, status: 'cancelled' }
    this.#tasks.set(copy.record.id, copy)
    this.#mark(copy, undefined)
    this.#change(copy, after, now)
    copy.record = { ...copy.record, changedAt }
  }

  /** How many ready tasks of its lane come before a task. Those that must run alone are apart. */
  #readyBefore(task: MemoryTask, now: number): number {
    let count = 0
    for (const other of this.#tasks.values()) {
      const isDue = other.budget === undefined && (other.dueAt <= now || other.lane.isOrdered)
      const isReady = other.record.status === 'waiting' && isDue
      if (other.lane === task.lane && isReady && !runsAlone(other.record) && goesBefore(other, task)) count++
    }
    return count
  }

  /** Rescues the tasks of workers whose lease has expired. */
  #rescue(): number {
    const now = this.#now()
    let rescued = 0
    for (const worker of this.#workers.expired()) {
      const release = this.#workers.releaseOf(worker)
      for (const task of this.#workers.tasksOf(worker)) {
        const { kind, changedAt: startedAt } = task.record
        this.#end(task, afterLoss(standingOf(task), { kind, worker, startedAt, release }, now), now)
        rescued++
      }
      this.#workers.remove(worker)
    }
    return rescued
  }

  /** Starts a task for a worker. Returns its token. */
  #start(task: MemoryTask, worker: string, now: number): string {
    const token = crypto.randomUUID()
    const before = task.record
    task.record = { ...task.record, status: 'running', nextAttemptAt: undefined, changedAt: now }
    task.lease = { worker, token }
    task.advance = undefined
    task.lane.start(task.cost, now)
    this.#workers.start(worker, task)
    this.#moved(before, task, now)
    return token
  }

  /** Ends the run of a task. */
  #end(task: MemoryTask, after: After, now: number): void {
    const { lane } = task
    const began = task.record.changedAt
    lane.end(task.record.id, began, after, now)
    const isGated = this.budgets.ended(lane, after, began, now)
    if (task.lease !== undefined) this.#workers.end(task.lease.worker, task)
    task.lease = undefined
    task.advance = undefined
    task.isToBeCancelled = false
    this.#noteMember(task, after)
    this.#change(task, after, now)
    if (isGated || lane.isBounded || (after.status === 'waiting' && after.advance === undefined)) this.#watchers.ring()
  }

  /** Adds the end of an attempt to the tally of the operation that moved the task. */
  #noteMember(task: MemoryTask, after: Pick<After, 'status' | 'ledger'>): void {
    if (task.record.operation === undefined) return
    const { isAnswered, ...tally } = memberTally(after, task.hasAnswered)
    task.hasAnswered = isAnswered
    this.operations.add(task.record.operation, tally)
  }

  /** Gives back, or takes, the difference between the cost of an attempt and what it used. */
  #correct({ lane, cost }: MemoryTask, used: Cost, now: number): void {
    lane.shared?.use(cost, used, now)
    if (lane.shared !== undefined) this.#watchers.ring()
  }

  /** Starts an item that waits at its next stage, if its worker asks to keep it and a claim could take it first. */
  #goOn(task: MemoryTask, { to, keep }: Advance, { worker, token }: Lease, now: number): Settled {
    // An item waits where a gate is open, so that it does not pass as a probe unseen.
    if (keep) this.budgets.letRetriesThrough(now)
    const isKept = keep && !this.budgets.isGated(task.lane) && this.#queue.takeFirst(task, now)
    const answer: Settled = isKept ? { result: 'kept', token: this.#start(task, worker, now), now } : SETTLED
    if (!isKept) this.#watchers.ring()
    task.advance = { token, to, answer }
    return answer
  }

  /** Writes where a task stands. */
  #change(task: MemoryTask, after: After, now: number): void {
    const {
      ledger,
      lane: _lane,
      answer: _answer,
      isFirst: _isFirst,
      isRetry,
      advance,
      isUndecided,
      failed,
      ...record
    } = after
    const before = task.record
    const failedIn = failed && this.groups.failed(failed, ledger, now)
    // The row belongs to the stage that has ended.
    writeLedger(task, ledger, failedIn)
    const isDone = record.status === 'succeeded' || record.status === 'skipped'
    const value = isDone ? undefined : (advance?.value ?? task.record.value)
    task.record = { ...task.record, ...record, group: failedIn ?? record.group, value, changedAt: now }
    task.isUndecided = isUndecided
    if (advance !== undefined) this.#enterLane(task, advance)
    if (isRetry) task.budget = this.budgets.retryBudgetOf(task.lane)
    if (record.status === 'waiting') this.#queue.add(task, now, task.lane.isOrdered)
    this.#moved(before, task, now)
  }

  /** Ends a waiting task, on record if somebody asked for it, and asks a running one to end. Returns whether it was either. */
  #cancel(task: MemoryTask, now: number, by?: By): boolean {
    const before = task.record
    if (before.status === 'running') task.isToBeCancelled = true
    else if (before.status !== 'waiting') return false
    else {
      task.record = { ...before, status: 'cancelled', nextAttemptAt: undefined, changedAt: now }
      if (by !== undefined) writeLedger(task, acted('cancelled', by, now), undefined)
      this.#queue.leaveBudget(task)
      this.#noteMember(task, { status: 'cancelled', ledger: { type: 'none' } })
    }
    this.#moved(before, task, now)
    return true
  }

  /** How many retries are due that a budget has not let through. */
  #heldBy(budget: string, now: number): number {
    let count = 0
    for (const task of this.#tasks.values())
      if (task.budget === budget && task.record.status === 'waiting' && task.dueAt <= now) count++
    return Math.min(count, MAX_HELD_SEEN)
  }

  /** Puts the retries of a kind under the budgets that it has now: those that wait under one, and those not due yet. */
  #rebudget(kind: string, now: number): void {
    for (const task of [...this.#tasks.values()]) {
      const { record, lane, dueAt } = task
      if (record.kind !== kind || record.status !== 'waiting') continue
      const isNew = task.budget === undefined && record.attempts > 0 && dueAt > now && !lane.isOrdered
      const budget = this.budgets.retryBudgetOf(lane)
      if (budget === task.budget || !(isNew || task.budget !== undefined)) continue
      // A copy takes its place, since the queue has it still.
      const copy = { ...task, budget }
      this.#queue.leaveBudget(task)
      task.record = { ...record, status: 'cancelled' }
      this.#tasks.set(record.id, copy)
      this.#queue.add(copy, now, lane.isOrdered)
    }
  }

  /** Moves a waiting task to another category. A copy takes its place, since its old lane's queue has it still. */
  #move(id: string, category: string, now: number): void {
    const task = this.#tasks.get(id)
    if (task === undefined) return
    const { record } = task
    const lane = this.#queue.lanes.of({ ...record, category })
    const moved = { ...task, record: { ...record, category }, lane }
    this.#queue.leaveBudget(task)
    task.record = { ...record, status: 'cancelled' }
    this.#tasks.set(id, moved)
    this.#queue.add(moved, now, false)
    this.#moved(record, moved, now)
  }

  #forget(id: string): void {
    this.groups.moved(this.#tasks.get(id)?.record, undefined)
    this.#tasks.delete(id)
  }

  /** Tells the groups that a task has changed, the runs if it is an item, and whoever waits for its end. */
  #moved(before: TaskRecord | undefined, { lane, record }: MemoryTask, now: number): void {
    this.groups.moved(before, record)
    if (lane.isOfRun) this.runs.moved(before, record, now)
    if (this.#ends.size > 0) this.#ends.call(record.id)
  }

  #items(): MemoryItems {
    return {
      tasks: this.#tasks,
      lanes: this.#queue.lanes,
      check: tasks => tasks.forEach(checkNewTask),
      add: (task, now) => this.#add(task, now),
      cancel: (task, now) => this.#cancel(task, now),
      redrive: (task, by, now) => this.#change(task, afterRedrive(standingOf(task), by, now), now),
      move: (id, category, now) => this.#move(id, category, now),
      forget: id => this.#forget(id),
      record: record => this.audit.add(record),
      ring: () => this.#watchers.ring(),
    }
  }

  #enterLane(task: MemoryTask, { to, cost }: Advance): void {
    const { kind, key } = task.record
    task.record = { ...task.record, category: to }
    task.lane = this.#queue.lanes.of({ kind, category: to, key })
    task.lane.added(task.record)
    task.cost = cost
  }

  *#records(): Iterable<TaskRecord> {
    for (const task of this.#tasks.values()) yield recordOf(task)
  }

  #now(): number {
    return Math.floor(this.#clock.now())
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
