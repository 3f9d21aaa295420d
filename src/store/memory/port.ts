import type { Port } from '../port/steps.js'
import type { AuditPort } from '../port/task-port.js'
import type { MemoryAuditLog } from './audit-log.js'
import { MemoryBatchPort } from './batch-port.js'
import { MemoryReads } from './reads.js'
import { MemoryRecords } from './record-port.js'
import { MemoryStepPort } from './steps.js'
import type { MemoryTasks } from './tasks.js'
import { MemoryUniquePort } from './unique-port.js'

/** The primitives of a memory store. Whoever keeps the rows of a noun has its primitives too. */
export function memoryPort(tasks: MemoryTasks): Port {
  const { audit, lanes, budgets, runs, operations, groups } = tasks
  return {
    clock: tasks,
    audit: new MemoryAuditPort(audit),
    tasks,
    steps: new MemoryStepPort(id => tasks.task(id)),
    unique: new MemoryUniquePort(tasks.unique, tasks.tasks),
    records: new MemoryRecords(),
    lanes,
    budgets,
    runs,
    batches: new MemoryBatchPort(() => tasks.tasks.values()),
    operations,
    groups,
    reads: new MemoryReads(tasks),
  }
}

class MemoryAuditPort implements AuditPort {
  readonly #log: MemoryAuditLog

  constructor(log: MemoryAuditLog) {
    this.#log = log
  }

  append(record: string): void {
    this.#log.add(record)
  }
}
