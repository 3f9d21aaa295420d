import type { Document } from 'mongodb'
import type { Shape, TimeFormat } from '../collection.js'
import { comparedFields, fieldValues, rawFieldsOf, recordOf } from '../record.js'
import type { DocumentRecord, NewValues } from '../source.js'
import { readTime, writeTime } from '../times.js'

type Fields = Readonly<Record<string, unknown>>

/** MongoDB has a type for times, unless the collection says otherwise. */
export function formatOf({ time = 'date' }: Pick<Shape, 'time'>): TimeFormat {
  return time
}

/** The value of a field. A name with dots is a path: `retry.count`. */
export function valueAt(document: unknown, path: string): unknown {
  return path.split('.').reduce((value, name) => (isObject(value) ? value[name] : undefined), document)
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null
}

/** The creation time of a document may be that of its ObjectId. */
function createdAt(shape: Shape, value: unknown): unknown {
  return hasTimestamp(value) ? writeTime(formatOf(shape), value.getTimestamp().getTime()) : value
}

function hasTimestamp(value: unknown): value is { getTimestamp(): Date } {
  return isObject(value) && 'getTimestamp' in value
}

/** The text of an id, which may be an ObjectId, a UUID or a long; `undefined` if it has none. */
export function idText(id: unknown): string | undefined {
  if (typeof id === 'string' || typeof id === 'number' || typeof id === 'bigint') return String(id)
  return isObject(id) && ('toHexString' in id || 'toBigInt' in id) ? String(id) : undefined
}

/** Makes a record of a document. */
export function toRecord(shape: Shape, document: Document): DocumentRecord {
  const read = (field: string) => valueAt(document, field)
  const raw = rawFieldsOf(shape, idText(read(shape.fields.id ?? '_id')), read)
  const fields = { ...raw, createdAt: createdAt(shape, raw.createdAt) }
  // A condition on null holds for a missing field too.
  const old = comparedFields(shape).map(name => [name, read(name) ?? null] as const)
  const asRead = { _id: document._id, ...Object.fromEntries(old) }
  return recordOf(shape, fields, plain(document), time => readTime(formatOf(shape), time), asRead)
}

/** A document in which integers that a number cannot hold are text, as a source of tables has them: JSON has no others. */
function plain(document: Document): Document {
  return Object.fromEntries(Object.entries(document).map(([name, value]) => [name, plainValue(value)]))
}

function plainValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainValue)
  if (!isObject(value)) return value
  if (value._bsontype === 'Long') return String(value)
  return Object.getPrototypeOf(value) === Object.prototype ? plain(value) : value
}

/** The fields of a document as they were read, as the condition of an update. */
export function asRead(document: DocumentRecord): Fields {
  return document.asRead as Fields
}

/** The fields to write, by their names. */
export function newFields(shape: Shape, to: NewValues): Fields {
  return fieldValues(shape, to, ms => writeTime(formatOf(shape), ms))
}
