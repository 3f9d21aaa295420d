import type { OutputRow, ReprocessFilter } from '../contract/run-store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskPlace } from '../rules/cursor.js'
import type { Exceeded } from '../rules/runs/budget.js'
import type { Deaths } from '../rules/runs/cause.js'
import type { ItemScan } from '../rules/runs/item-page.js'
import type { RunState, StageCounts } from '../rules/runs/run-state.js'

/** A run, and its items by stage and status. */
export interface CountedRun {
  readonly state: RunState
  readonly counts: StageCounts
}

/** A run under its lock, and the time. */
export interface LockedRun {
  readonly state: RunState
  readonly now: number
}

/** The position of an item that has an id of its own. */
export interface ItemPosition {
  readonly id: string
  readonly position: number
}

/** The deaths of a run since a time; in one stage, if that is given. */
export type DeathScope = Pick<Exceeded, 'since'> & Partial<Pick<Exceeded, 'stage'>>

/** The primitives of runs. A run that is being forgotten is not found by any of them. */
export interface RunPort {
  /** Adds a run. Returns false if its id is taken. */
  open(state: RunState): boolean
  get(id: string): CountedRun | undefined
  /** A run that nobody else changes until the transaction ends, and the time. */
  lock(id: string): LockedRun | undefined
  /** Runs from before a place, newest first. */
  list(pipeline: string | undefined, before: TaskPlace, limit: number): readonly CountedRun[]
  save(state: RunState): void
  /** The items of a run by stage and status. After the run was locked, they have all that was committed before. */
  counts(state: RunState): StageCounts
  /** Notes the positions of items that have ids of their own. */
  addItems(run: string, items: readonly ItemPosition[]): void
  /** Items within a scan, in the order of the source. */
  items(state: RunState, scan: ItemScan, status: TaskStatus | undefined, limit: number): readonly ItemRow[]
  /** The ids of dead items that match. */
  deadItems(filter: ReprocessFilter, limit: number): readonly string[]
  /** The ids of waiting items that match. */
  waitingItems(filter: ReprocessFilter, limit: number): readonly string[]
  /** The ids of running items of a run that nobody has asked to end. */
  runningItems(state: RunState): readonly string[]
  /** Moves waiting items to another stage. */
  moveItems(ids: readonly string[], stage: string): void
  /** The dead items of a run, by error and stage. */
  deaths(state: RunState, of: DeathScope): readonly Deaths[]
  outputs(run: string, limit: number): readonly OutputRow[]
  removeOutputs(run: string, ids: readonly string[]): void
}

/** An item, and its position if its id does not tell it. */
export interface ItemRow {
  readonly record: TaskRecord
  readonly position?: number
}
