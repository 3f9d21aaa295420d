import type { Document } from 'mongodb'
import type { Shape } from '../collection.js'
import { recordOf } from '../record.js'
import type { DocumentRecord, NewValues } from '../source.js'

type Fields = Readonly<Record<string, unknown>>

/** A time as the collection stores it: as a date, unless it says otherwise. */
export function writeTime({ time }: Pick<Shape, 'time'>, ms: number): Date | string | number {
  if (time === 'iso') return new Date(ms).toISOString()
  if (time === 'ms') return ms
  return time === 's' ? ms / 1000 : new Date(ms)
}

/** Reads a time as the collection stores it; `undefined` if it is none. The creation time may be that of an ObjectId. */
export function readTime({ time = 'date' }: Pick<Shape, 'time'>, value: unknown): number | undefined {
  if (value instanceof Date) return time === 'date' ? value.getTime() : undefined
  if (typeof value === 'string') return time === 'iso' ? Date.parse(value) : undefined
  if (typeof value === 'number') return time === 'ms' ? value : time === 's' ? value * 1000 : undefined
  return hasTimestamp(value) ? value.getTimestamp().getTime() : undefined
}

function hasTimestamp(value: unknown): value is { getTimestamp(): Date } {
  return typeof value === 'object' && value !== null && 'getTimestamp' in value
}

/** Makes a record of a document. */
export function toRecord(shape: Shape, document: Document): DocumentRecord {
  const { fields } = shape
  const value = (name: string | undefined): unknown => (name === undefined ? undefined : document[name])
  const raw = {
    id: value(fields.id ?? '_id'),
    status: value(fields.status),
    attemptCount: value(fields.attemptCount),
    lastAttemptTime: value(fields.lastAttemptTime),
    generation: value(fields.generation),
    retryAt: value(fields.retryAt),
    dispatches: value(fields.dispatches),
    createdAt: value(fields.createdAt),
    lastError: value(fields.lastError),
  }
  const compared = [fields.status, fields.attemptCount, fields.lastAttemptTime, fields.generation, fields.retryAt]
  // A condition on null holds for a missing field too.
  const old = compared.filter(name => name !== undefined).map(name => [name, document[name] ?? null] as const)
  const read = (time: unknown) => readTime(shape, time)
  return recordOf(shape, raw, document, read, { _id: document._id, ...Object.fromEntries(old) })
}

/** The fields of a document as they were read, as the condition of an update. */
export function asRead(document: DocumentRecord): Fields {
  return document.asRead as Fields
}

/** The fields to write, by their names. */
export function newFields(shape: Shape, to: NewValues): Fields {
  const { fields } = shape
  const time = (ms: number | null | undefined) => (typeof ms === 'number' ? writeTime(shape, ms) : ms)
  const values = [
    [fields.status, to.status],
    [fields.attemptCount, to.attemptCount],
    [fields.lastAttemptTime, time(to.lastAttemptAt)],
    [fields.generation, to.generation],
    [fields.retryAt, time(to.retryAt)],
    [fields.dispatches, to.dispatches],
    [fields.lastError, to.lastError],
  ] as const
  return Object.fromEntries(values.filter(([name, value]) => name !== undefined && value !== undefined))
}
