import { redact } from '../../telemetry/index.js'
import type { Console } from '../terminal/console.js'
import { type Layout, NAME_WIDTH, paragraph, table } from '../terminal/table.js'
import { timestamp } from '../terminal/times.js'

/** An audit record: any JSON, by whoever wrote it. One that is not an object is wrapped in one. */
export type AuditRecord = Readonly<Record<string, unknown>>

/** Fields that have a column of their own. */
const SHOWN = new Set(['event_type', 'who', 'why', 'timestamp'])

/** Parses an audit record. */
export function auditRecord(text: string): AuditRecord {
  const value: unknown = JSON.parse(text)
  return typeof value === 'object' && value !== null ? { ...value } : { record: value }
}

/** Audit records as a table, with their further fields below each. */
export function auditTable(records: readonly AuditRecord[], { width, paint }: Console, layout: Layout): string {
  const columns = [
    { title: 'TIME' },
    { title: 'EVENT' },
    { title: 'WHO', minWidth: NAME_WIDTH, isName: true },
    // A reason that is clipped is repeated in full, too.
    { title: 'WHY', minWidth: NAME_WIDTH, isName: true },
  ]
  const rows = records.map(record => {
    const rest = Object.entries(record).filter(([name, value]) => !SHOWN.has(name) && value !== null)
    const text = rest.map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    return {
      cells: [timeText(record.timestamp), ...['event_type', 'who', 'why'].map(name => textOf(record[name]))],
      // The patch of an edit is on record as it was given.
      details: text.length === 0 ? [] : paragraph(redact(text.join(' ')), { width, indent: '  ' }),
    }
  })
  return table(columns, rows, { width, paint, layout })
}

function timeText(time: unknown): string {
  return typeof time === 'string' && !Number.isNaN(Date.parse(time)) ? timestamp(time) : '-'
}

function textOf(value: unknown): string {
  return typeof value === 'string' && value !== '' ? value : '-'
}
