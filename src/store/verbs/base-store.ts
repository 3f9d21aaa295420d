import type { IdempotencyStore } from '../../idempotency/index.js'
import type { BatchStore } from '../contract/batch-store.js'
import type { BudgetStore } from '../contract/budget-store.js'
import type { Beat, Claim, ClaimRequest, Heartbeat, Settled, Settlement } from '../contract/claim.js'
import type { CostField, CostFilter, CostTotal } from '../contract/cost.js'
import type { GroupStore } from '../contract/group-store.js'
import type { Lane, LaneLimits, LaneRecord, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { LaneRules } from '../contract/lane-rule.js'
import type { By, LedgerRow } from '../contract/ledger.js'
import type { LifetimeStore } from '../contract/lifetime-store.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from '../contract/list.js'
import type { OperationSettings, OperationStore } from '../contract/operation-store.js'
import type { Prunable } from '../contract/prunable.js'
import { COPY, THIS_COPY } from '../contract/public-store.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { RunStore } from '../contract/run-store.js'
import type { ScheduleStore } from '../contract/schedule-store.js'
import type { StepRecording, StepRow } from '../contract/step.js'
import type {
  AuditStore,
  FailedTask,
  JsonRecord,
  PolicyStore,
  Retention,
  StoreContract,
  TaskVerbs,
} from '../contract/store.js'
import type { Enqueued, NewTask, TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import type { RecordName } from '../port/record-port.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import {
  checkBeat,
  checkBy,
  checkClaim,
  checkCosts,
  checkCountFields,
  checkDiscard,
  checkFail,
  checkFilter,
  checkIds,
  checkLaneSelection,
  checkLanes,
  checkLimit,
  checkName,
  checkNewTask,
  checkNotUnique,
  checkPage,
  checkPause,
  checkPerson,
  checkRetention,
  checkSettlement,
  checkStep,
  checkText,
  checkTime,
} from '../rules/check.js'
import { addUpCosts } from '../rules/costs.js'
import { checkedLimits } from '../rules/lane-limits.js'
import { checkTwin } from '../rules/operations/check-operation.js'
import { checkedShared, declarationOf, isShared } from '../rules/shared-limit.js'
import { noTasks } from '../rules/task-state.js'
import { Batches, pruneBatches } from './batches.js'
import { Budgets } from './budgets.js'
import { Groups } from './groups.js'
import { limitLanes, pauseLanes } from './lanes.js'
import { Lifetimes } from './lifetimes.js'
import { Operations, prunableOperations, pruneOperations } from './operations.js'
import { Runs, redriveTasks } from './runs.js'
import { Schedules } from './schedules.js'
import { countContaining, listContaining, partsOf } from './search.js'
import {
  cancelOnRecord,
  completeOnRecord,
  deleteOnRecord,
  discardOnRecord,
  editOnRecord,
  failOnRecord,
} from './tasks.js'
import { countKeyed, listKeyed, standingWithTwin } from './unique.js'

/** The verbs that each store carries out in its own way: hot ones, and `prune`, which knows every table. */
export interface StoreVerbs extends Omit<TaskVerbs, 'watch'> {
  prune(keep: Retention, limit: number): Promise<number>
  recordStep(step: StepRecording): Promise<boolean>
}

/** Calls those who watch a store. It is rung after a commit. */
export interface Bell {
  /** There may be something new to claim, or a running task is to be cancelled. */
  ring(): void
  /** These tasks may have ended. */
  ended(tasks: readonly { readonly id: string }[]): void
  watch(callback: () => void): () => void
  watchEnd(id: string, callback: () => void): () => void
}

/** The parts in which stores differ. */
export interface StoreParts {
  readonly verbs: StoreVerbs
  readonly transactions: Transactions
  readonly bell: Bell
  readonly idempotency: IdempotencyStore
  readonly policies: PolicyStore
  readonly audit: AuditStore
}

/** The verbs of every store. Each checks its arguments, runs its body in a transaction, and rings the bell after the commit. */
export class BaseStore implements Omit<StoreContract, 'once' | 'close'> {
  readonly [COPY]: typeof THIS_COPY = THIS_COPY
  /** The keys of an `IdempotencyGuard`, as durable as the tasks. */
  readonly idempotency: IdempotencyStore
  /** Policies by their hash. */
  readonly policies: PolicyStore
  /** The audit log. */
  readonly audit: AuditStore
  /** The runs of pipelines. */
  readonly runs: RunStore
  /** Tasks that were enqueued together, and end together. */
  readonly batches: BatchStore
  /** Bulk acts on record. */
  readonly operations: OperationStore
  /** Recurring work. */
  readonly schedules: ScheduleStore
  /** Times to live, for tasks that no worker runs. */
  readonly lifetimes: LifetimeStore
  /** Budgets of kinds, with their gates. */
  readonly budgets: BudgetStore
  /** Failures with the same fingerprint. */
  readonly groups: GroupStore
  readonly #verbs: StoreVerbs
  readonly #transactions: Transactions
  readonly #bell: Bell

  constructor({ verbs, transactions, bell, idempotency, policies, audit }: StoreParts) {
    this.#verbs = verbs
    this.#transactions = transactions
    this.#bell = bell
    this.idempotency = idempotency
    this.policies = policies
    this.audit = audit
    this.groups = new Groups(transactions)
    this.budgets = new Budgets(transactions, () => bell.ring())
    this.runs = new Runs(transactions, () => bell.ring())
    this.batches = new Batches(transactions, () => bell.ring())
    this.schedules = new Schedules(transactions, () => bell.ring())
    this.lifetimes = new Lifetimes(transactions, ids => this.#changed(ids))
    this.operations = new Operations(transactions, ids => this.#changed(ids))
  }

  now(): Promise<number> {
    return this.#verbs.now()
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    tasks.forEach(checkNewTask)
    return this.#verbs.enqueue(tasks)
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    checkClaim(request)
    return this.#verbs.claim(request)
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    settlements.forEach(checkSettlement)
    return this.#verbs.settle(settlements)
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    checkBeat(beat)
    return this.#verbs.heartbeat(beat)
  }

  async recordStep(step: StepRecording): Promise<boolean> {
    checkStep(step)
    return this.#verbs.recordStep(step)
  }

  async steps(id: string): Promise<StepRow[]> {
    checkName('id', id)
    const [steps = []] = await this.stepsOf([id])
    return steps
  }

  async stepsOf(ids: readonly string[]): Promise<StepRow[][]> {
    checkIds(ids)
    return (await this.#read(tx => tx.steps.of(ids))).map(steps => [...steps])
  }

  async cancelled(worker: string): Promise<readonly string[]> {
    checkName('worker', worker)
    return this.#verbs.cancelled(worker)
  }

  async leave(worker: string): Promise<void> {
    checkName('worker', worker)
    return this.#verbs.leave(worker)
  }

  watch(callback: () => void): () => void {
    return this.#bell.watch(callback)
  }

  watchEnd(id: string, callback: () => void): () => void {
    checkName('id', id)
    return this.#bell.watchEnd(id, callback)
  }

  async get(id: string): Promise<TaskRecord | undefined> {
    checkName('id', id)
    return this.#read(tx => tx.reads.get(id))
  }

  async standing(id: string, limit: number): Promise<TaskStanding | undefined> {
    checkName('id', id)
    checkPage({ limit })
    return this.#read(tx => standingWithTwin(tx, id, limit))
  }

  async list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>> {
    checkFilter(filter)
    checkPage(page)
    if (filter.unique !== undefined) return this.#read(tx => listKeyed(tx, filter, page))
    const { columns, part } = partsOf(filter)
    return this.#read(tx =>
      part === undefined ? tx.reads.list(columns, page) : listContaining(tx, columns, part, page),
    )
  }

  async count(filter: TaskFilter): Promise<Record<TaskStatus, number>> {
    checkFilter(filter)
    if (filter.unique !== undefined) return this.#read(tx => countKeyed(tx, filter))
    const { columns, part } = partsOf(filter)
    if (part === undefined) return this.#read(tx => tx.reads.count(columns))
    const counts = noTasks()
    for (const { status, count } of await countContaining(this.#transactions, columns, part, ['status']))
      if (status !== undefined) counts[status] = count
    return counts
  }

  async stats(): Promise<StoreStats> {
    return this.#read(tx => tx.reads.stats())
  }

  async countBy(filter: TaskFilter, fields: readonly CountField[]): Promise<TaskCount[]> {
    checkFilter(filter)
    checkNotUnique('Counts by fields are', filter)
    checkCountFields(fields)
    const { columns, part } = partsOf(filter)
    if (part === undefined) return this.#read(tx => tx.reads.countBy(columns, fields))
    return countContaining(this.#transactions, columns, part, fields)
  }

  async costs(filter: CostFilter, by: readonly CostField[]): Promise<CostTotal[]> {
    checkCosts(filter, by)
    return addUpCosts(await this.#read(tx => tx.reads.costs(filter, by)), by)
  }

  async retried(since: number, page: PageRequest): Promise<Page<RetriedTask>> {
    checkTime('since', since)
    checkPage(page)
    return this.#read(tx => tx.reads.retried(since, page))
  }

  async ledger(id: string): Promise<LedgerRow[]> {
    checkName('id', id)
    const [rows = []] = await this.ledgers([id])
    return rows
  }

  async ledgers(ids: readonly string[]): Promise<LedgerRow[][]> {
    checkIds(ids)
    return this.#read(tx => tx.reads.ledgers(ids))
  }

  async payloads(ids: readonly string[]): Promise<(string | undefined)[]> {
    checkIds(ids)
    return this.#read(tx => tx.reads.payloads(ids))
  }

  async lanes(filter: Partial<Lane> = {}): Promise<LaneRecord[]> {
    checkLanes(filter)
    return this.#read(tx => tx.reads.lanes(filter))
  }

  async laneRules(filter: Partial<Lane> = {}): Promise<LaneRules> {
    checkLanes(filter)
    return this.#read(tx => tx.reads.laneRules(filter))
  }

  async records({ limit, after }: PageRequest): Promise<Page<JsonRecord>> {
    checkPage({ limit })
    const found = await this.#read(tx => tx.records.all(recordName(after), limit + 1))
    const items = found.slice(0, limit).map(({ type, id, state }) => ({ type, id, state }))
    const last = items.at(-1)
    return found.length > limit && last !== undefined ? { items, next: `${last.type} ${last.id}` } : { items }
  }

  async workers(): Promise<WorkerRecord[]> {
    return this.#read(tx => tx.reads.workers())
  }

  async prunable(keep: Retention): Promise<Prunable> {
    checkRetention(keep)
    const { auditMs } = keep
    return this.#read(function* (tx) {
      const found = yield* tx.reads.prunable(keep)
      if (auditMs === undefined) return found
      return { ...found, records: found.records + (yield* prunableOperations(tx, auditMs)) }
    })
  }

  async prune(keep: Retention, limit: number): Promise<number> {
    checkRetention(keep)
    checkLimit(limit)
    const { endedMs, auditMs } = keep
    if (endedMs !== undefined) await this.schedules.prune(endedMs, limit)
    if (endedMs !== undefined) await this.#transactions.write(tx => pruneBatches(tx, keep, limit))
    const gone = await this.#verbs.prune(keep, limit)
    if (auditMs === undefined || gone >= limit) return gone
    return gone + (await this.#transactions.write(tx => pruneOperations(tx, auditMs, limit - gone)))
  }

  async redrive(ids: readonly string[], by: By, { twin }: Pick<OperationSettings, 'twin'> = {}): Promise<string[]> {
    checkIds(ids)
    checkName('who', by?.who)
    checkBy(by)
    checkTwin(twin)
    const moved = await this.#transactions.write(function* (tx) {
      return yield* redriveTasks(tx, ids, by, yield* tx.clock.now(), undefined, twin)
    })
    if (moved.length > 0) this.#bell.ring()
    return moved
  }

  async cancel(ids: readonly string[], by?: By): Promise<string[]> {
    checkIds(ids)
    checkBy(by)
    const cancelled = await this.#transactions.write(tx => cancelOnRecord(tx, ids, by))
    if (cancelled.length > 0) this.#changed(cancelled)
    return cancelled
  }

  async discard(ids: readonly string[], by: Required<By>): Promise<string[]> {
    checkIds(ids)
    checkDiscard(by)
    const discarded = await this.#transactions.write(tx => discardOnRecord(tx, ids, by))
    // Their lanes may have stopped at them.
    if (discarded.length > 0) this.#bell.ring()
    return discarded
  }

  async complete(ids: readonly string[], result: string | undefined, by: By): Promise<string[]> {
    checkIds(ids)
    if (result !== undefined) checkText('result', result)
    checkPerson(by)
    const completed = await this.#transactions.write(tx => completeOnRecord(tx, ids, result, by))
    if (completed.length > 0) this.#changed(completed)
    return completed
  }

  async fail(tasks: readonly FailedTask[], by: Required<By>): Promise<string[]> {
    checkFail(tasks, by)
    const failed = await this.#transactions.write(tx => failOnRecord(tx, tasks, by))
    if (failed.length > 0) this.#changed(failed)
    return failed
  }

  async delete(ids: readonly string[], by: By): Promise<string[]> {
    checkIds(ids)
    checkPerson(by)
    const deleted = await this.#transactions.write(tx => deleteOnRecord(tx, ids, by))
    if (deleted.length > 0) this.#changed(deleted)
    return deleted
  }

  async edit(id: string, payload: string, by: By): Promise<boolean> {
    checkName('id', id)
    checkText('payload', payload)
    checkName('who', by?.who)
    checkBy(by)
    return this.#transactions.write(tx => editOnRecord(tx, id, payload, by))
  }

  async pause(lanes: LaneSelection, pause: { readonly isPaused: boolean } & Partial<By>): Promise<void> {
    checkLaneSelection(lanes)
    checkPause(pause)
    await this.#transactions.write(tx => pauseLanes(tx, lanes, pause))
    if (!pause.isPaused) this.#bell.ring()
  }

  async limit(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by?: By): Promise<void> {
    checkLaneSelection(lanes)
    checkBy(by)
    const checked = isShared(limits) ? checkedShared(lanes, limits) : checkedLimits(limits)
    const declaration = declarationOf(lanes, limits)
    const isNews = await this.#transactions.write(tx => limitLanes(tx, lanes, checked, { declaration, by }))
    if (isNews) this.#bell.ring()
  }

  #read<T>(body: (tx: Tx) => Steps<T>): Promise<T> {
    return this.#transactions.read(body)
  }

  #changed(ids: readonly string[]): void {
    this.#bell.ring()
    this.#bell.ended(ids.map(id => ({ id })))
  }
}

/** The record that a cursor names. Types have no spaces. */
function recordName(cursor = ''): RecordName {
  const [type = ''] = cursor.split(' ', 1)
  return { type, id: cursor.slice(type.length + 1) }
}
