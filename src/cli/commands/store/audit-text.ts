import { exactJson, exactValue, isObject, membersOf } from '../../../policy/internal.js'
import { redact, withoutSecrets } from '../../../telemetry/index.js'
import type { Console } from '../../terminal/console.js'
import { type Layout, NAME_WIDTH, paragraph, table } from '../../terminal/table.js'
import { timestamp } from '../../terminal/times.js'

/** Fields that have a column of their own. */
const SHOWN = new Set(['event_type', 'who', 'why', 'timestamp'])

/** An audit record as a view: any JSON, by whoever wrote it. A record that is not an object is wrapped in one. */
export function auditView(text: string): object {
  const value = exactValue(text)
  return isObject(value) && !(value instanceof Number) ? value : { record: value }
}

/** Audit records as a table, with their further fields below each. */
export function auditTable(records: readonly string[], { width, paint }: Console, layout: Layout): string {
  const columns = [
    { title: 'TIME' },
    { title: 'EVENT' },
    { title: 'WHO', minWidth: NAME_WIDTH, isName: true },
    // A reason that is clipped is repeated in full, too.
    { title: 'WHY', minWidth: NAME_WIDTH, isName: true },
  ]
  const rows = records.map(record => {
    const view = auditView(record)
    const members = [...(membersOf(exactJson(view)) ?? [])]
    const rest = members.filter(([name, value]) => !SHOWN.has(name) && value !== 'null')
    const text = rest.map(([name, value]) => `${name}=${value.startsWith('"') ? JSON.parse(value) : value}`)
    const cell = (name: string) => textOf(Reflect.get(view, name))
    return {
      cells: [timeText(Reflect.get(view, 'timestamp')), cell('event_type'), cell('who'), cell('why')],
      // The records of a user's own sinks may have secrets.
      details: text.length === 0 ? [] : paragraph(redact(text.join(' ')), { width, indent: '  ' }),
    }
  })
  return table(columns, rows, { width, paint, layout })
}

function timeText(time: unknown): string {
  return typeof time === 'string' && !Number.isNaN(Date.parse(time)) ? timestamp(time) : '-'
}

function textOf(value: unknown): string {
  return typeof value === 'string' && value !== '' ? withoutSecrets(value) : '-'
}
