import type { TimeFormat } from './collection.js'

/** The times that a `Date` can hold, on either side of the epoch. */
export const MAX_TIME = 8.64e15

/** A date, or a date and a time with minutes at least; without a zone it is UTC. SQLite's `julianday` reads the same. */
const ISO = /^\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/i

/** A time as a collection of that format stores it. */
export function writeTime(format: Exclude<TimeFormat, 'date'>, ms: number): string | number
export function writeTime(format: TimeFormat, ms: number): Date | string | number
export function writeTime(format: TimeFormat, ms: number): Date | string | number {
  switch (format) {
    case 'date':
      return new Date(ms)
    case 'iso':
      return new Date(ms).toISOString()
    case 'ms':
      return ms
    case 's':
      return ms / 1000
  }
}

/** Reads a time as a collection of that format stores it; `undefined` if the value is none. */
export function readTime(format: TimeFormat, value: unknown): number | undefined {
  switch (format) {
    case 'date':
      return value instanceof Date ? value.getTime() : undefined
    case 'iso':
      return typeof value === 'string' ? readIso(value) : undefined
    case 'ms':
      return typeof value === 'number' ? value : undefined
    case 's':
      return typeof value === 'number' ? Math.round(value * 1000) : undefined
  }
}

/** JavaScript would read a time without a zone as local time. */
function readIso(text: string): number | undefined {
  const parts = ISO.exec(text)
  if (parts === null) return undefined
  const isUtc = parts[1] === undefined && text.length > 'yyyy-mm-dd'.length
  const at = Date.parse(`${text.replace(' ', 'T')}${isUtc ? 'Z' : ''}`)
  return Number.isNaN(at) ? undefined : at
}
