import { OptionError, RedriveError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { type AuditRecord, auditRecord } from './audit.js'
import { LineFile } from './line-file.js'
import type { WorkEvent } from './work-events.js'

/** The options of an audit file. @inline */
export interface NdjsonAuditOptions {
  /** The maximum size of the records that wait in memory while writing fails or is too slow. Default 16 MiB. */
  readonly maxWaitingBytes?: number | undefined
}

/** A sink that appends audit records to a file, one JSON object per line. */
export interface NdjsonAudit {
  /** Resolves once the event's record is on file. Rejects if it could not be written yet. */
  (event: WorkEvent): Promise<void> | undefined
  /** Writes the waiting records. If that fails, rejects and keeps them. */
  flush(): Promise<void>
  /** Writes the waiting records and closes the file; later events are refused. If it rejects, call it again. */
  close(): Promise<void>
  /** The number of records dropped because too many were waiting. The file marks the gap where they are missing. */
  readonly dropped: number
}

/** Marks the place of dropped records in an audit file, so that a gap differs from silence. */
export interface RecordsDropped {
  readonly event_type: 'records_dropped'
  /** How many records are missing here. */
  readonly count: number
  /** The time of the last dropped record. */
  readonly timestamp: string
}

/**
 * Writes an audit file. Await `close()` before the process exits.
 *
 * ```ts
 * const audit = ndjsonAudit('/var/log/app/audit.ndjson')
 * await retry(charge, { attempts: 3 }, { sink: audit })
 * await audit.close()
 * ```
 *
 * A written record survives the process. A record that could not be written is kept and retried with the next one.
 */
export function ndjsonAudit(path: string, options: NdjsonAuditOptions = {}): NdjsonAudit {
  const known: KnownOptions<NdjsonAuditOptions> = { maxWaitingBytes: '' }
  checkOptions('ndjsonAudit()', options, known)
  const { maxWaitingBytes = 2 ** 24 } = options
  if (!(maxWaitingBytes > 0)) {
    throw new OptionError('maxWaitingBytes', `'maxWaitingBytes' must be a number above 0, got ${maxWaitingBytes}.`)
  }
  const file = new LineFile(path)
  let gap: RecordsDropped | undefined
  let closed = false
  const audit = Object.assign(ndjsonAuditSink, { flush, close, dropped: 0 })
  return audit

  function ndjsonAuditSink(event: WorkEvent): Promise<void> | undefined {
    if (closed)
      throw new RedriveError('audit_closed', `The audit file '${path}' is closed: emit events before close().`)
    const record = auditRecord(event)
    if (record === undefined) return undefined
    const line = toLine(record)
    if (file.waitingBytes + Buffer.byteLength(line) > maxWaitingBytes) return drop(record)
    closeGap()
    return file.append(line)
  }

  /** Drops the new record rather than an old one, so that the gap is in one place. */
  function drop({ timestamp }: AuditRecord): never {
    audit.dropped++
    gap = { event_type: 'records_dropped', count: (gap?.count ?? 0) + 1, timestamp }
    // Try a write, or nobody would notice that the file is writable again.
    void file.flush().catch(() => undefined)
    const taken = `${file.waitingBytes} of the ${maxWaitingBytes} bytes that may wait are taken`
    throw new RedriveError(
      'audit_dropped',
      `No room for a record in the audit file '${path}': ${taken}. It is dropped.`,
    )
  }

  function closeGap(): void {
    if (gap === undefined) return
    void file.append(toLine(gap)).catch(() => undefined)
    gap = undefined
  }

  async function flush(): Promise<void> {
    await file.flush()
    closeGap()
    await file.flush()
  }

  async function close(): Promise<void> {
    closed = true
    await flush()
    await file.close()
  }
}

/** Returns one line of JSON, escaping characters that terminals or line readers would interpret. */
function toLine(record: AuditRecord | RecordsDropped): string {
  const json = JSON.stringify(record).replace(
    /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return `${json}\n`
}
