import { formatDuration } from '../../policy/index.js'

/** `2026-07-30 10:00:00Z`. */
export function timestamp(at: number): string {
  return `${iso(at).slice(0, 19).replace('T', ' ')}Z`
}

/** `in 4m`, `3h 5m ago` or `now`. */
export function relative(at: number, now: number): string {
  const ms = Math.round((at - now) / 1000) * 1000
  if (ms === 0) return 'now'
  return ms > 0 ? `in ${formatDuration(ms)}` : `${formatDuration(-ms)} ago`
}

/** Both of them. */
export function moment(at: number, now: number): string {
  return `${timestamp(at)} (${relative(at, now)})`
}

/** As machines read it. */
export function iso(at: number): string {
  return new Date(at).toISOString()
}
