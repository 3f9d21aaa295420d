import type { BatchCount } from '../contract/batch-store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { BatchPort } from '../port/batch-port.js'
import { batchOf } from '../rules/batches/members.js'
import { compareTexts } from '../rules/cursor.js'
import type { MemoryTask } from './task.js'

/** The primitives of batches in memory, which look at all tasks. */
export class MemoryBatchPort implements BatchPort {
  readonly #tasks: () => Iterable<MemoryTask>

  constructor(tasks: () => Iterable<MemoryTask>) {
    this.#tasks = tasks
  }

  unfinished(batch: string, from: string): string | undefined {
    let first: string | undefined
    for (const { id, status } of this.#membersOf(batch)) {
      if (status !== 'waiting' && status !== 'running') continue
      if (compareTexts(id, from) >= 0 && (first === undefined || compareTexts(id, first) < 0)) first = id
    }
    return first
  }

  members(batch: string, status: TaskStatus | undefined, after: string, limit: number): string[] {
    const found = [...this.#membersOf(batch)].filter(record => status === undefined || record.status === status)
    const ids = found.map(({ id }) => id).filter(id => compareTexts(id, after) > 0)
    return ids.sort(compareTexts).slice(0, limit)
  }

  tally(batch: string): BatchCount[] {
    const rows = new Map<string, { -readonly [Field in keyof BatchCount]: BatchCount[Field] }>()
    for (const { status, kind, errorCode } of this.#membersOf(batch)) {
      const name = JSON.stringify([status, kind, errorCode])
      const row = rows.get(name) ?? { status, kind, errorCode, count: 0 }
      row.count++
      rows.set(name, row)
    }
    return [...rows.values()]
  }

  *#membersOf(batch: string): Iterable<TaskRecord> {
    for (const { record } of this.#tasks()) if (batchOf(record.id) === batch) yield record
  }
}
