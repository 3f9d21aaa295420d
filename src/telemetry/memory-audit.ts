import { OptionError } from '../policy/index.js'
import { type AuditRecord, auditRecord } from './audit.js'
import type { WorkEvent } from './work-events.js'

/** A sink that keeps audit records in memory, for tests and development. */
export interface MemoryAudit {
  (event: WorkEvent): void
  /** The latest records, oldest first. */
  readonly records: readonly AuditRecord[]
  /** The number of older records dropped to make room. */
  readonly dropped: number
  /** Forgets all records and resets `dropped`. */
  clear(): void
}

/** Creates a sink that keeps the latest audit records, at most `max`. Default 10,000. */
export function memoryAudit({ max = 10_000 }: { readonly max?: number } = {}): MemoryAudit {
  if (!(max >= 1)) throw new OptionError('max', `'max' must be a number, 1 or more, got ${max}.`)
  const records: AuditRecord[] = []
  const audit = Object.assign(memoryAuditSink, { records, dropped: 0, clear })
  return audit

  function memoryAuditSink(event: WorkEvent): void {
    const record = auditRecord(event)
    if (record === undefined) return
    records.push(record)
    if (records.length <= max) return
    records.shift()
    audit.dropped++
  }

  function clear(): void {
    records.length = 0
    audit.dropped = 0
  }
}
