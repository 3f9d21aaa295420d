import type { FieldNames, Shape, TimeFormat } from '../collection.js'
import { comparedFields, fieldValues, rawFieldsOf, recordOf } from '../record.js'
import type { Cut, DocumentRecord, NewValues } from '../source.js'
import { column } from '../sql/names.js'
import type { Dialect } from '../sql/walks.js'
import { readTime, writeTime } from '../times.js'

/** A row as SQLite gives it: every integer is a bigint, since a number would lose the end of a 64-bit id. */
export type Row = Readonly<Record<string, unknown>>

/** The order of a row within its walk, beside the user's own columns. */
export const SORT = 'redrive:sort'

/** The name of a table's id column. */
export function idOf({ fields }: { readonly fields: FieldNames }): string {
  return fields.id ?? 'id'
}

/** SQLite has no type for times: text, unless the collection says otherwise. */
function formatOf({ time = 'iso' }: Shape): Exclude<TimeFormat, 'date'> {
  return time === 'date' ? 'iso' : time
}

/**
 * Texts do not sort by time, `Z` and `+02:00` being the same: their Julian day does. It is null for a text that is no time,
 * so such a row is found among those without a time. Where times are numbers, texts sort behind all of them.
 */
export function dialectOf(shape: Shape): Dialect {
  const isText = formatOf(shape) === 'iso'
  return {
    id: 'id',
    time: name => (isText ? `julianday(${column(name)})` : column(name)),
    moment: parameter => (isText ? `julianday(@${parameter})` : `@${parameter}`),
    key: parameter => `@${parameter}`,
    ...(!isText && { isNoTime: (name: string) => `${column(name)} >= ''` }),
  }
}

/** The values of the parameters of a walk. */
export function moments(shape: Shape, { now, stuckBefore }: Cut): object {
  return { now: writeTime(formatOf(shape), now), stuckBefore: writeTime(formatOf(shape), stuckBefore) }
}

/** Reads a time of the collection; `undefined` if the value is none. */
export function timeOf(shape: Shape, value: unknown): number | undefined {
  return readTime(formatOf(shape), plain(value))
}

/** Makes a record of a row. */
export function toRecord(shape: Shape, { [SORT]: _, ...row }: Row): DocumentRecord {
  const data = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plain(value)]))
  const raw = rawFieldsOf(shape, row[idOf(shape)], field => data[field])
  return recordOf(shape, raw, data, value => timeOf(shape, value), row)
}

/** A bigint as a number, or as text where a number cannot hold it: JSON has no bigints. */
function plain(value: unknown): unknown {
  if (typeof value !== 'bigint') return value
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : String(value)
}

/** The row of a document as it was read. */
export function asRow({ asRead }: DocumentRecord): Row {
  return asRead as Row
}

/** The condition that a row is as it was read, for `oldValues`. */
export function isAsRead(shape: Shape): string {
  const compared = comparedFields(shape).map((name, index) => `${column(name)} IS @old${index}`)
  return [`${column(idOf(shape))} = @id`, ...compared].join(' AND ')
}

export function oldValues(shape: Shape, document: DocumentRecord): object {
  const row = asRow(document)
  const compared = comparedFields(shape).map((name, index) => [`old${index}`, row[name]] as const)
  return { id: row[idOf(shape)], ...Object.fromEntries(compared) }
}

/** The columns to write, by their names. */
export function newValues(shape: Shape, to: NewValues): Record<string, string | number | null> {
  return fieldValues(shape, to, ms => writeTime(formatOf(shape), ms))
}
