import type { Lane, LaneRecord } from '../contract/lane.js'
import type { LaneRules } from '../contract/lane-rule.js'
import type { LedgerRow } from '../contract/ledger.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from '../contract/list.js'
import type { Prunable } from '../contract/prunable.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { Retention } from '../contract/store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { WorkerRecord } from '../contract/worker-store.js'

/** The reads of tasks, lanes and workers: each store has statements of its own for them. The contract says what they give. */
export interface ReadPort {
  get(id: string): TaskRecord | undefined
  standing(id: string, limit: number): TaskStanding | undefined
  list(filter: TaskFilter, page: PageRequest): Page<TaskRecord>
  count(filter: TaskFilter): Record<TaskStatus, number>
  countBy(filter: TaskFilter, fields: readonly CountField[]): TaskCount[]
  stats(): StoreStats
  retried(since: number, page: PageRequest): Page<RetriedTask>
  ledgers(ids: readonly string[]): LedgerRow[][]
  payloads(ids: readonly string[]): (string | undefined)[]
  lanes(filter: Partial<Lane>): LaneRecord[]
  laneRules(filter: Partial<Lane>): LaneRules
  workers(): WorkerRecord[]
  prunable(keep: Retention): Prunable
}
