import { OptionError, RedriveError } from '../policy/index.js'
import { type AuditRecord, auditRecord } from './audit.js'
import { LineFile } from './line-file.js'
import type { WorkEvent } from './work-events.js'

/** How much an audit file may fall behind. */
export interface NdjsonAuditOptions {
  /** The most that may wait in memory while the file cannot be written, or not fast enough. Default 16 MiB. */
  readonly maxWaitingBytes?: number
}

/** A sink that appends audit records to a file, one JSON object per line. */
export interface NdjsonAudit {
  /** Resolves when the event's record is on file, and rejects when it could not be written yet. */
  (event: WorkEvent): Promise<void> | undefined
  /** Writes what waits. Rejects when it cannot; the records are kept. */
  flush(): Promise<void>
  /** Writes what waits and lets go of the file; from then on events are refused. After a rejection, call it again. */
  close(): Promise<void>
  /** How many records were refused because too many waited. The file says so too, where they are missing. */
  readonly dropped: number
}

/** Stands in an audit file in the place of records that were dropped, so that a gap can be told from silence. */
export interface RecordsDropped {
  readonly event_type: 'records_dropped'
  readonly count: number
  /** When the last of them happened. */
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
 * A record that was written outlives the process; one that could not be written is kept and tried again with the next.
 */
export function ndjsonAudit(path: string, { maxWaitingBytes = 2 ** 24 }: NdjsonAuditOptions = {}): NdjsonAudit {
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

  /** The new record goes rather than an old one: so the gap is in one place, and nothing is taken back. */
  function drop({ timestamp }: AuditRecord): never {
    audit.dropped++
    gap = { event_type: 'records_dropped', count: (gap?.count ?? 0) + 1, timestamp }
    // Without a further try, nobody would find out that the file can be written again.
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

/** JSON that no terminal and no reader of lines takes for anything but text, whatever a message holds. */
function toLine(record: AuditRecord | RecordsDropped): string {
  const json = JSON.stringify(record).replace(
    /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return `${json}\n`
}
