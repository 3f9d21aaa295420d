import type { CostFilter } from '../contract/cost.js'
import type { Lane, LaneRecord } from '../contract/lane.js'
import type { LaneRules } from '../contract/lane-rule.js'
import type { LedgerRow } from '../contract/ledger.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount } from '../contract/list.js'
import type { Prunable } from '../contract/prunable.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { Retention } from '../contract/store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import type { ColumnFilter, ReadPort } from '../port/read-port.js'
import type { CostRow } from '../rules/costs.js'
import type { TaskPlace } from '../rules/cursor.js'
import { isWorker } from '../rules/is-worker.js'
import { containing } from '../rules/json-contains.js'
import { matches } from './lane-rules.js'
import { countTasks, countTasksBy, foundBehind, listTasks } from './list.js'
import { prunable } from './prune.js'
import { retriedTasks } from './retried.js'
import { statsOf } from './stats.js'
import type { MemoryTask } from './task.js'
import type { MemoryTasks } from './tasks.js'

/** The reads of a memory store. */
export class MemoryReads implements ReadPort {
  readonly #tasks: MemoryTasks

  constructor(tasks: MemoryTasks) {
    this.#tasks = tasks
  }

  get(id: string): TaskRecord | undefined {
    const task = this.#tasks.task(id)
    return task && recordOf(task)
  }

  standing(id: string, limit: number): TaskStanding | undefined {
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
      retryBudget: this.#tasks.budgets.scopeOf(budget),
      behindRetry: lane.isOrdered ? [...lane.budgeted].find(other => other !== task)?.record.id : undefined,
      blockedBy: record.status === 'waiting' ? lane.letterBefore(task) : undefined,
      ...lane.bounds(cost, now),
    }
  }

  list(filter: ColumnFilter, page: PageRequest): Page<TaskRecord> {
    return listTasks(this.#records(), filter, page)
  }

  places(filter: ColumnFilter, { limit, after }: PageRequest): TaskPlace[] {
    return foundBehind(this.#records(), filter, after).slice(0, limit)
  }

  several(ids: readonly string[]): TaskRecord[] {
    return ids.flatMap(id => this.get(id) ?? [])
  }

  containing(ids: readonly string[], part: string): string[] {
    const isContaining = containing(part)
    return ids.filter(id => isContaining(this.#tasks.task(id)?.record.payload ?? ''))
  }

  count(filter: ColumnFilter): Record<TaskStatus, number> {
    return countTasks(this.#records(), filter)
  }

  countBy(filter: ColumnFilter, fields: readonly CountField[]): TaskCount[] {
    return countTasksBy(this.#records(), filter, fields)
  }

  costs(filter: CostFilter): CostRow[] {
    return this.#tasks.costs.rows(filter)
  }

  stats(): StoreStats {
    const { lanes, tasks, budgets } = this.#tasks
    const now = this.#tasks.now()
    const kinds = statsOf(lanes, tasks.values(), lane => budgets.isHeld(lane, now), now)
    return { now, workers: this.workers().filter(isWorker).length, kinds }
  }

  retried(since: number, page: PageRequest): Page<RetriedTask> {
    return retriedTasks(this.#tasks.tasks.values(), since, page)
  }

  ledgers(ids: readonly string[]): LedgerRow[][] {
    return ids.map(id => [...(this.#tasks.task(id)?.ledger ?? [])])
  }

  payloads(ids: readonly string[]): (string | undefined)[] {
    return ids.map(id => this.#tasks.task(id)?.record.payload)
  }

  lanes(filter: Partial<Lane>): LaneRecord[] {
    const now = this.#tasks.now()
    return [...this.#tasks.lanes.all()].filter(lane => matches(filter, lane)).map(lane => lane.toRecord(now))
  }

  laneRules(filter: Partial<Lane>): LaneRules {
    return this.#tasks.lanes.rules(filter)
  }

  workers(): WorkerRecord[] {
    return this.#tasks.workers.live()
  }

  prunable(keep: Retention): Prunable {
    const { runs, audit, keys } = this.#tasks
    const now = this.#tasks.now()
    const { auditMs, keysMs } = keep
    const over = [...new Set(prunable(this.#tasks, keep, now))]
    const deadLetters = over.filter(({ record }) => record.status === 'dead').length
    return {
      tasks: over.length - deadLetters,
      deadLetters,
      ...runs.prunable(keep),
      keys: keysMs === undefined ? 0 : keys.prunable(keysMs),
      records: auditMs === undefined ? 0 : audit.prunable(now - auditMs),
    }
  }

  *#records(): Iterable<TaskRecord> {
    for (const task of this.#tasks.tasks.values()) yield recordOf(task)
  }
}

/** The task as it is on record, with the budget that it waits under. */
function recordOf({ record, budget }: MemoryTask): TaskRecord {
  return budget === undefined ? record : { ...record, isBudgeted: true }
}
