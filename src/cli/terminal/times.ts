import { formatDuration } from '../../policy/index.js'

/** A point in time: ISO 8601 text, or milliseconds since the epoch. */
export type Time = string | number

/** `2026-07-30 10:00:00Z` */
export function timestamp(at: Time): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')}Z`
}

/** `in 4m`, `3h 5m ago` or `now` */
export function relative(at: Time, now: number): string {
  const ms = Math.round((new Date(at).getTime() - now) / 1000) * 1000
  if (ms === 0) return 'now'
  return ms > 0 ? `in ${formatDuration(ms)}` : `${formatDuration(-ms)} ago`
}

/** `2026-07-30 10:00:00Z (in 4m)` */
export function moment(at: Time, now: number): string {
  return `${timestamp(at)} (${relative(at, now)})`
}
