import type { Thrown } from './facts.js'
import { isObject } from './is-object.js'

/**
 * How many milliseconds a failed request asks to wait: from `retryAfterMs`, `retryAfter` or the headers `Retry-After`,
 * `RateLimit` and `RateLimit-Reset`, in that order. What is negative or cannot be read is ignored.
 */
export function retryAfter(error: Thrown, status: number | undefined, now: number): number | undefined {
  const headers = error.response?.headers ?? error.headers
  const asked = usable(error.retryAfterMs) ?? wait(error.retryAfter, now) ?? wait(headerOf(headers, 'retry-after'), now)
  // A quota is told with any answer; it is what to wait for only where it is used up.
  if (asked !== undefined || status !== 429) return asked
  // `limit=10, remaining=0, reset=30`, or as structured fields `"default";r=0;t=30`
  const [, reset] = /\b(?:reset|t)=(\d+)/.exec(String(headerOf(headers, 'ratelimit'))) ?? []
  return seconds(reset) ?? seconds(headerOf(headers, 'ratelimit-reset'))
}

/** RFC 9110 has it as seconds, or as the date from which on to try again, which begins with the name of its day. */
function wait(value: unknown, now: number): number | undefined {
  const isDate = typeof value === 'string' && /^[A-Z].*:\d\d/.test(value)
  // It is GMT even where it does not say so.
  return isDate ? usable(Date.parse(`${value} GMT`) - now) : seconds(value)
}

function seconds(value: unknown): number | undefined {
  const isText = typeof value === 'string' && /^\s*\d+(\.\d+)?\s*$/.test(value)
  return isText || typeof value === 'number' ? usable(Number(value) * 1000) : undefined
}

function usable(ms: unknown): number | undefined {
  return typeof ms === 'number' && ms >= 0 ? ms : undefined
}

/** A header by its name in lower case; of several values, the first. */
function headerOf(headers: unknown, name: string): unknown {
  if (!isObject(headers)) return undefined
  if (typeof headers.get === 'function') return headers.get(name)
  const key = Object.keys(headers).find(key => key.toLowerCase() === name)
  return key && [headers[key]].flat()[0]
}
