import type { CostField, CostFilter } from '../contract/cost.js'
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
import type { CostRow } from '../rules/costs.js'
import type { TaskPlace } from '../rules/cursor.js'

/** A filter by fields that a store has in columns. */
export type ColumnFilter = Omit<TaskFilter, 'where' | 'unique'>

/** The reads of tasks, lanes and workers: each store has statements of its own for them. The contract says what they give. */
export interface ReadPort {
  get(id: string): TaskRecord | undefined
  standing(id: string, limit: number): TaskStanding | undefined
  list(filter: ColumnFilter, page: PageRequest): Page<TaskRecord>
  /** The places of the tasks that `list` would give, up to the limit. */
  places(filter: ColumnFilter, page: PageRequest): readonly TaskPlace[]
  /** Several tasks, in the order of their ids here, without those that are unknown. */
  several(ids: readonly string[]): readonly TaskRecord[]
  /** Those of these tasks whose payload contains a part, in any order. */
  containing(ids: readonly string[], part: string): readonly string[]
  count(filter: ColumnFilter): Record<TaskStatus, number>
  countBy(filter: ColumnFilter, fields: readonly CountField[]): TaskCount[]
  /** Amounts by bucket and by at least these fields, in rows that may agree. */
  costs(filter: CostFilter, by: readonly CostField[]): readonly CostRow[]
  stats(): StoreStats
  retried(since: number, page: PageRequest): Page<RetriedTask>
  ledgers(ids: readonly string[]): LedgerRow[][]
  payloads(ids: readonly string[]): (string | undefined)[]
  lanes(filter: Partial<Lane>): LaneRecord[]
  laneRules(filter: Partial<Lane>): LaneRules
  workers(): WorkerRecord[]
  prunable(keep: Retention): Prunable
}
