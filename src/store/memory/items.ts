import type { By } from '../ledger.js'
import type { Enqueued, NewTask } from '../task.js'
import type { MemoryLanes } from './lanes.js'
import type { MemoryTask } from './task.js'

/** The part of the memory store that its runs work with: their items are tasks like all others. */
export interface MemoryItems {
  readonly tasks: ReadonlyMap<string, MemoryTask>
  readonly lanes: MemoryLanes
  add(task: NewTask, now: number): Enqueued
  /** Ends a waiting task, and asks a running one to end. Returns whether it was either. */
  cancel(task: MemoryTask, now: number): boolean
  redrive(task: MemoryTask, by: By, now: number): void
  /** Moves a waiting task to another category. */
  move(id: string, category: string, now: number): void
  forget(id: string): void
  /** Appends an audit record. */
  record(record: string): void
  /** Calls the watchers. */
  ring(): void
}
