type Source = Readonly<Record<string, unknown>>

/**
 * How many milliseconds a failed request asks to wait: from `retryAfterMs`, `retryAfter` or the headers `Retry-After`,
 * `RateLimit` and `RateLimit-Reset`, in that order. What is negative or cannot be read is ignored.
 */
export function retryAfter(error: Source, response: Source | undefined, now: number): number | undefined {
  if (typeof error.retryAfterMs === 'number' && error.retryAfterMs >= 0) return error.retryAfterMs
  const header = headerReader(response?.headers ?? error.headers)
  return (
    secondsOrDate(error.retryAfter, now) ??
    secondsOrDate(header?.('retry-after'), now) ??
    seconds(resetOf(header?.('ratelimit'))) ??
    seconds(header?.('ratelimit-reset'))
  )
}

/** `Retry-After` as RFC 9110 has it: seconds, or the date from which on to try again. */
function secondsOrDate(value: unknown, now: number): number | undefined {
  return seconds(value) ?? untilDate(value, now)
}

function seconds(value: unknown): number | undefined {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && /^\s*\d{1,15}(\.\d+)?\s*$/.test(text) ? Math.round(Number(text) * 1000) : undefined
}

function untilDate(value: unknown, now: number): number | undefined {
  // Date.parse alone would read '-5' as a date.
  if (typeof value !== 'string' || !/^\s*(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /.test(value)) return undefined
  const waitMs = Date.parse(value) - now
  return waitMs >= 0 ? waitMs : undefined
}

/** The reset in a `RateLimit` header: `limit=10, remaining=0, reset=30`, or as structured fields `"default";r=0;t=30`. */
function resetOf(value: unknown): string | undefined {
  return typeof value === 'string' ? /(?:^|[;,\s])(?:reset|t)=(\d+)/.exec(value)?.[1] : undefined
}

function headerReader(headers: unknown): ((name: string) => unknown) | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined
  if ('get' in headers && typeof headers.get === 'function') {
    const { get } = headers
    return name => get.call(headers, name)
  }
  const entries = Object.entries(headers)
  return name => entries.find(([key]) => key.toLowerCase() === name)?.[1]
}
