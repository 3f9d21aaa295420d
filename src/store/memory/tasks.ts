import { MemoryIdempotencyStore } from '../../idempotency/index.js'
import type { Clock } from '../../time/index.js'
import type { BudgetScope } from '../contract/budget-store.js'
import { SETTLED, type Settled } from '../contract/claim.js'
import type { Before, By } from '../contract/ledger.js'
import type { Cost, Enqueued, NewTask, TaskRecord } from '../contract/task.js'
import { inSteps, runNow, type Tx } from '../port/steps.js'
import type { ClockPort, Item, TaskPort, UnfinishedTask } from '../port/task-port.js'
import {
  type Advance,
  type After,
  afterDiscard,
  afterEndByHand,
  afterLoss,
  afterRedrive,
  afterSettlement,
  EXPIRED,
  runsAlone,
} from '../rules/after-settlement.js'
import { type ArrangedAs, type Arrangement, arranged, arrangedRow } from '../rules/arrange.js'
import { BATCH } from '../rules/batches/batch-rules.js'
import { batchOf } from '../rules/batches/members.js'
import { isCovering } from '../rules/budgets/claim-gates.js'
import { MAX_HELD_SEEN } from '../rules/budgets/retry-allowance.js'
import type { TaskPlace } from '../rules/cursor.js'
import { acted } from '../rules/ledger-change.js'
import { notesOf } from '../rules/notes-of.js'
import { memberTally } from '../rules/operations/member-tally.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { cancellationOf, type EndByHand, isEditable, isInPart, isRemovable, isToEndAs } from '../rules/operator-acts.js'
import { taskIds } from '../rules/task-id.js'
import { created, QUEUED_UNTIL, stands } from '../rules/unique.js'
import { releaseKey, takeKey } from '../rules/unique-keys.js'
import { MemoryAuditLog } from './audit-log.js'
import { MemoryBell } from './bell.js'
import { type BudgetHost, MemoryBudgets } from './budgets.js'
import { MemoryCosts } from './costs.js'
import { type GroupHost, MemoryGroups } from './groups.js'
import type { MemoryLanes } from './lanes.js'
import { MemoryOperations } from './operations.js'
import { memoryPort } from './port.js'
import { MemoryQueue } from './queue.js'
import { MemoryRuns } from './runs.js'
import { goesBefore, type Lease, type MemoryTask, newTask, standingOf, writeLedger } from './task.js'
import { type KeyedTasks, MemoryUniqueKeys } from './unique.js'
import { MemoryWorkers } from './workers.js'

/**
 * The tasks of a memory store and their life: everything that its verbs, and its runs, operations, budgets and groups, do
 * to a task. Each method runs in one go, as part of a verb.
 */
export class MemoryTasks implements BudgetHost, GroupHost, KeyedTasks, ClockPort, TaskPort {
  readonly tasks = new Map<string, MemoryTask>()
  readonly queue = new MemoryQueue()
  readonly workers: MemoryWorkers
  readonly bell = new MemoryBell()
  readonly audit = new MemoryAuditLog(() => this.now())
  readonly runs = new MemoryRuns(this)
  readonly operations = new MemoryOperations(this)
  readonly keys: MemoryIdempotencyStore
  readonly unique = new MemoryUniqueKeys(this)
  readonly groups = new MemoryGroups(this)
  readonly budgets = new MemoryBudgets(this)
  readonly costs = new MemoryCosts()
  readonly tx: Tx = inSteps(memoryPort(this))
  readonly #clock: Clock
  readonly #newId = taskIds()

  constructor(clock: Clock) {
    this.#clock = clock
    this.keys = new MemoryIdempotencyStore({ clock })
    this.workers = new MemoryWorkers(clock)
  }

  now(): number {
    return Math.floor(this.#clock.now())
  }

  get lanes(): MemoryLanes {
    return this.queue.lanes
  }

  task(id: string): MemoryTask | undefined {
    return this.tasks.get(id)
  }

  record(record: string): void {
    this.audit.add(record)
  }

  ring(): void {
    this.bell.ring()
  }

  running(scope: BudgetScope): number {
    return [...this.lanes.all()].reduce((sum, lane) => sum + (isCovering(scope, lane) ? lane.running : 0), 0)
  }

  letThrough(budgets: readonly number[], most: number, now: number): ReadonlyMap<number, number> {
    return this.queue.letThrough(budgets, most, now)
  }

  nextBudgeted(budget: number): number {
    return this.queue.nextBudgeted(budget)
  }

  add(task: NewTask, now: number): Enqueued {
    const { id = this.#newId(now), kind, category = '', key = '', quota, unique, tried } = task
    const there = this.tasks.get(id)?.record
    if (there !== undefined) return stands(id, 'kept', { status: there.status, since: there.changedAt })
    const taken = unique && takeKey(this.unique, task, id, unique, now)
    if (taken !== undefined && 'stands' in taken) return taken.stands
    const added = newTask({ ...task, id }, this.lanes.of({ kind, category, key }, quota), now)
    this.tasks.set(id, added)
    added.lane.added(added.record)
    this.#moved(undefined, added)
    if (taken?.isQueued) this.queueBehind(added)
    else if (tried === undefined) this.queue.add(added, now, false)
    else {
      added.lane.start(added.cost, now)
      this.end(added, afterSettlement(standingOf(added), tried.outcome, tried.attempt, now), now)
    }
    return taken === undefined ? created(id) : { id, isNew: true, outcome: taken.outcome }
  }

  enqueue(tasks: readonly NewTask[], now: number): boolean[] {
    return tasks.map(task => this.add(task, now).isNew)
  }

  redrive(ids: readonly string[], by: By, now: number, part?: PartOfOperation): string[] {
    return ids.filter(id => {
      const task = this.#deadIn(id, part)
      if (task === undefined) return false
      this.#mark(task, part?.operation)
      this.#change(task, afterRedrive(standingOf(task), by, now), now)
      return true
    })
  }

  discard(ids: readonly string[], by: By, now: number, part?: PartOfOperation): string[] {
    return ids.filter(id => {
      const task = this.#deadIn(id, part)
      if (task === undefined || task.lane.hasItems) return false
      this.#mark(task, part?.operation)
      this.#change(task, afterDiscard(standingOf(task), { why: '', ...by }, now), now)
      return true
    })
  }

  #deadIn(id: string, part: PartOfOperation | undefined): MemoryTask | undefined {
    const task = this.tasks.get(id)
    return task?.record.status === 'dead' && isInPart(task.record, part) ? task : undefined
  }

  cancel(ids: readonly string[], by: By | undefined, now: number): string[] {
    return [...new Set(ids)].filter(id => {
      const task = this.tasks.get(id)
      return task !== undefined && this.#cancel(task, now, by)
    })
  }

  withdraw(ids: readonly string[], now: number): void {
    this.cancel(
      ids.filter(id => this.tasks.get(id)?.record.status === 'waiting'),
      undefined,
      now,
    )
  }

  finish(ids: readonly string[], end: EndByHand, by: By, now: number): string[] {
    return ids.filter(id => {
      const task = this.tasks.get(id)
      if (task === undefined || !isToEndAs(end, { status: task.record.status, isItem: task.lane.hasItems }))
        return false
      this.#mark(task, undefined)
      this.#change(task, afterEndByHand(standingOf(task), end, by, now), now)
      return true
    })
  }

  remove(ids: readonly string[]): string[] {
    return ids.filter(id => {
      const task = this.tasks.get(id)
      if (task === undefined || !isRemovable({ status: task.record.status, isItem: task.lane.hasItems })) return false
      this.forget(id)
      return true
    })
  }

  expire(tasks: readonly TaskPlace[], now: number): string[] {
    const expired = tasks.filter(({ id, changedAt }) => {
      const task = this.tasks.get(id)
      if (task?.record.status !== 'waiting' || task.record.changedAt !== changedAt || task.lane.isPaused) return false
      const after = afterSettlement(standingOf(task), EXPIRED, undefined, now)
      this.queue.leaveBudget(task)
      this.#noteMember(task, after)
      this.#change(task, after, now)
      return true
    })
    return expired.map(({ id }) => id)
  }

  arrange(tasks: readonly Arrangement[], as: ArrangedAs, by: By, now: number, operation: string | undefined): string[] {
    return tasks.flatMap(wanted => {
      const task = this.tasks.get(wanted.id)
      return task !== undefined && this.#arrange(task, wanted, as, by, now, operation) ? wanted.id : []
    })
  }

  #arrange(
    task: MemoryTask,
    wanted: Arrangement,
    as: ArrangedAs,
    by: By,
    now: number,
    operation: string | undefined,
  ): boolean {
    const { record, lane } = task
    if (record.status !== 'waiting') return false
    const isDeferred = task.ledger.at(-1)?.outcome === 'deferred'
    const nextAttemptAt = record.isQueued ? QUEUED_UNTIL : (record.nextAttemptAt ?? now)
    const before = { ...record, nextAttemptAt, isOrdered: lane.isOrdered, isDeferred }
    const after = arranged(before, wanted, now)
    if (after === undefined) return false
    const changed = this.#replace(task, { record: { ...record, ...after } })
    writeLedger(changed, arrangedRow(as, before, by, now, operation), undefined)
    lane.freeHead(record.id)
    this.queue.add(changed, now, false)
    return true
  }

  edit(id: string, payload: string, by: By, now: number): boolean {
    const task = this.tasks.get(id)
    if (task === undefined || !isEditable({ status: task.record.status, isItem: task.lane.hasItems })) return false
    writeLedger(task, acted('edited', by, now, { payload: task.record.payload }), undefined)
    task.record = { ...task.record, payload }
    return true
  }

  unfinished(ids: readonly string[]): UnfinishedTask[] {
    return ids.flatMap(id => {
      const { status, attempts, deferrals, losses } = this.tasks.get(id)?.record ?? {}
      if (status !== 'waiting' && status !== 'running') return []
      const isRunning = status === 'running'
      return [{ id, isRunning, hasBegun: isRunning || [attempts, deferrals, losses].some(count => count !== 0) }]
    })
  }

  itemsOf(ids: readonly string[]): ReadonlyMap<string, Item> {
    const items = ids.flatMap((id): [string, Item][] => {
      const task = this.tasks.get(id)
      if (task?.lane.hasItems !== true) return []
      const { key: run, category: stage, changedAt } = task.record
      return [[id, { id, run, stage, changedAt }]]
    })
    return new Map(items)
  }

  #mark(task: MemoryTask, operation: string | undefined): void {
    task.record = { ...task.record, operation }
    task.hasAnswered = false
  }

  /** Puts a task back as it was before an operation moved it. */
  restore(task: MemoryTask, after: After, before: Before, now: number): void {
    const copy = this.#replace(task, {})
    this.#mark(copy, undefined)
    this.#change(copy, after, now)
    const { changedAt = now, payload = copy.record.payload } = before
    copy.record = { ...copy.record, changedAt, payload }
  }

  /** How many ready tasks of its lane come before a task. Those that must run alone are apart. */
  readyBefore(task: MemoryTask, now: number): number {
    let count = 0
    for (const other of this.tasks.values()) {
      const isDue = other.budget === undefined && (other.dueAt <= now || other.lane.isOrdered)
      const isReady = other.record.status === 'waiting' && isDue
      if (other.lane === task.lane && isReady && !runsAlone(other.record) && goesBefore(other, task)) count++
    }
    return count
  }

  /** Rescues the tasks of workers whose lease has expired. */
  rescue(): number {
    const now = this.now()
    let rescued = 0
    for (const worker of this.workers.expired()) {
      const { release, notes = {} } = this.workers.reportOf(worker)
      for (const task of this.workers.tasksOf(worker)) {
        const { id, kind, changedAt: startedAt } = task.record
        const claim = { kind, worker, startedAt, release, notes: notesOf(notes, id, startedAt) }
        this.end(task, afterLoss(standingOf(task), claim, now), now)
        rescued++
      }
      this.workers.remove(worker)
    }
    return rescued
  }

  /** Starts a task for a worker. Returns its token. */
  start(task: MemoryTask, worker: string, now: number): string {
    const token = crypto.randomUUID()
    const before = task.record
    task.record = { ...task.record, status: 'running', nextAttemptAt: undefined, changedAt: now }
    task.lease = { worker, token }
    task.advance = undefined
    task.lane.start(task.cost, now)
    this.workers.start(worker, task)
    this.#moved(before, task)
    return token
  }

  /** Ends the run of a task. */
  end(task: MemoryTask, after: After, now: number): void {
    const { lane } = task
    const began = task.record.changedAt
    lane.end(task.record.id, began, after, now)
    const isGated = this.budgets.ended(lane, after, began, now)
    if (task.lease !== undefined) this.workers.end(task.lease.worker, task)
    task.lease = undefined
    task.isToBeCancelled = false
    this.#noteMember(task, after)
    this.#change(task, after, now)
    if (isGated || lane.isBounded || (after.status === 'waiting' && after.advance === undefined)) this.ring()
  }

  /** Adds the end of an attempt to the tally of the operation that moved the task. */
  #noteMember(task: MemoryTask, after: Pick<After, 'status' | 'ledger'>): void {
    if (task.record.operation === undefined) return
    const { isAnswered, ...tally } = memberTally(after, task.hasAnswered)
    task.hasAnswered = isAnswered
    this.operations.add(task.record.operation, tally)
  }

  /** Counts what an attempt has spent. A shared limit gets back, or gives, the difference to the cost of the task. */
  spent({ lane, cost }: MemoryTask, used: Cost, now: number): void {
    this.costs.add(lane, used, now)
    this.budgets.spent(lane, used, now)
    lane.shared?.use(cost, used, now)
    if (lane.shared !== undefined) this.ring()
  }

  /** Starts an item that waits at its next stage, if its worker asks to keep it and a claim could take it first. */
  goOn(task: MemoryTask, { to, keep }: Advance, { worker, token }: Lease, now: number): Settled {
    // An item waits where a gate is open, so that it does not pass as a probe unseen.
    if (keep) this.budgets.letRetriesThrough(now)
    const isKept = keep && !this.budgets.isGated(task.lane) && this.queue.takeFirst(task, now)
    const answer: Settled = isKept ? { result: 'kept', token: this.start(task, worker, now), now } : SETTLED
    if (!isKept) this.ring()
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
    const group = failedIn ?? record.group
    task.record = { ...task.record, ...record, group, value, isQueued: undefined, changedAt: now }
    task.isUndecided = isUndecided
    task.advance = undefined
    if (advance !== undefined) this.#enterLane(task, advance)
    if (record.status === 'dead') task.lane.died(task)
    if (isRetry) task.budget = this.budgets.retryBudgetOf(task.lane)
    if (record.status === 'waiting') this.queue.add(task, now, task.lane.isOrdered)
    this.#moved(before, task)
  }

  /** Ends a waiting task, or asks a running one to end, on record if somebody asked for it. Returns whether it did either. */
  #cancel(task: MemoryTask, now: number, by: By | undefined): boolean {
    const before = task.record
    const act = cancellationOf({ status: before.status, isToBeCancelled: task.isToBeCancelled })
    if (act === undefined) return false
    // A rate limit still holds for the tasks behind this one.
    const isRateLimited = task.ledger.at(-1)?.outcome === 'deferred'
    if (by !== undefined) writeLedger(task, acted(act, by, now), undefined)
    if (act === 'cancel_requested') task.isToBeCancelled = true
    else {
      task.record = { ...before, status: 'cancelled', nextAttemptAt: undefined, isQueued: undefined, changedAt: now }
      this.queue.leaveBudget(task)
      if (!isRateLimited) task.lane.freeHead(before.id)
      this.#noteMember(task, { status: 'cancelled', ledger: { type: 'none' } })
    }
    this.#moved(before, task)
    return true
  }

  /** How many retries are due that a budget has not let through. */
  heldBy(budget: number, now: number): number {
    let count = 0
    for (const task of this.tasks.values())
      if (task.budget === budget && task.record.status === 'waiting' && task.dueAt <= now) count++
    return Math.min(count, MAX_HELD_SEEN)
  }

  /** Puts the retries of a kind under the budgets that it has now: those that wait under one, and those not due yet. */
  rebudget(kind: string, now: number): void {
    for (const task of [...this.tasks.values()]) {
      const { record, lane, dueAt } = task
      if (record.kind !== kind || record.status !== 'waiting') continue
      const isNew = task.budget === undefined && record.attempts > 0 && dueAt > now && !lane.isOrdered
      const budget = this.budgets.retryBudgetOf(lane)
      if (budget === task.budget || !(isNew || task.budget !== undefined)) continue
      this.queue.add(this.#replace(task, { budget }), now, lane.isOrdered)
    }
  }

  /** Moves a waiting task to another category. */
  move(id: string, category: string, now: number): void {
    const task = this.tasks.get(id)
    if (task === undefined) return
    const { record } = task
    const lane = this.lanes.of({ ...record, category })
    const moved = this.#replace(task, { record: { ...record, category }, lane })
    this.queue.add(moved, now, false)
    this.#moved(record, moved)
  }

  postpone(task: MemoryTask, payload: string, dueAt: number, now: number): void {
    const startedAt = Math.max(now, dueAt)
    this.queue.add(
      this.#replace(task, { record: { ...task.record, payload, startedAt, nextAttemptAt: dueAt, changedAt: now } }),
      now,
      false,
    )
  }

  queueBehind(task: MemoryTask): void {
    const record = { ...task.record, nextAttemptAt: undefined, isQueued: true }
    this.#replace(task, { record, dueAt: QUEUED_UNTIL })
  }

  free(task: MemoryTask, dueAt: number, now: number): void {
    const startedAt = Math.max(now, dueAt)
    task.record = { ...task.record, startedAt, nextAttemptAt: startedAt, isQueued: undefined }
    this.queue.add(task, now, false)
    this.ring()
  }

  /** Puts a changed copy in the place of a waiting task, whose old entry stays in the queue of its lane. */
  #replace(task: MemoryTask, changes: Partial<MemoryTask>): MemoryTask {
    const copy = { ...task, ...changes }
    this.queue.leaveBudget(task)
    task.lane.forgetLetter(task)
    task.record = { ...task.record, status: 'cancelled' }
    this.tasks.set(copy.record.id, copy)
    return copy
  }

  /** Whether a task is a member of a batch, which it is kept for. */
  isInBatch({ id }: Pick<TaskRecord, 'id'>): boolean {
    const batch = batchOf(id)
    return batch !== undefined && runNow(this.tx.records.get(BATCH, batch)) !== undefined
  }

  forget(id: string): void {
    const task = this.tasks.get(id)
    task?.lane.forgetLetter(task)
    this.groups.moved(task?.record, undefined)
    this.tasks.delete(id)
  }

  /** Tells the groups that a task has changed, the runs if it is an item, and whoever waits for its end. */
  #moved(before: TaskRecord | undefined, { lane, record }: MemoryTask): void {
    this.groups.moved(before, record)
    if (lane.hasItems) this.runs.moved(this.tx, before, record)
    const { id, kind, unique, status } = record
    if (unique !== undefined && status !== 'waiting' && status !== 'running')
      releaseKey(this.unique, { id, kind, key: unique.key }, this.now())
    this.bell.ended([record])
  }

  #enterLane(task: MemoryTask, { to, cost }: Advance): void {
    const { kind, key } = task.record
    task.record = { ...task.record, category: to }
    task.lane = this.lanes.of({ kind, category: to, key })
    task.lane.added(task.record)
    task.cost = cost
  }
}
