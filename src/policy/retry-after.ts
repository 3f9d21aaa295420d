type Source = Readonly<Record<string, unknown>>

/**
 * How many milliseconds a failed request asks to wait: from `retryAfterMs`, `retryAfter` or the headers `Retry-After`,
 * `RateLimit` and `RateLimit-Reset`, in that order. What is negative or cannot be read is ignored.
 */
export function retryAfter(error: Source, response: Source | undefined, now: number): number | undefined {
  if (typeof error.retryAfterMs === 'number' && error.retryAfterMs >= 0) return error.retryAfterMs
  const header = headerReader(response?.headers ?? error.headers)
  return (
    wait(error.retryAfter, now) ??
    wait(header('retry-after'), now) ??
    // `limit=10, remaining=0, reset=30`, or as structured fields `"default";r=0;t=30`
    wait(/\b(?:reset|t)=(\d+)/.exec(String(header('ratelimit')))?.[1], now) ??
    wait(header('ratelimit-reset'), now)
  )
}

/** RFC 9110 has it as seconds, or as the date from which on to try again. */
function wait(value: unknown, now: number): number | undefined {
  const text = String(value)
  if (/^\s*\d{1,15}(\.\d+)?\s*$/.test(text)) return Math.round(Number(text) * 1000)
  // Date.parse alone would read '-5' as a date.
  const waitMs = /^\s*[A-Z][a-z]+,? /.test(text) ? Date.parse(text) - now : -1
  return waitMs >= 0 ? waitMs : undefined
}

function headerReader(headers: unknown): (name: string) => unknown {
  if (typeof headers !== 'object' || headers === null) return () => undefined
  if ('get' in headers && typeof headers.get === 'function') return name => (headers as Headers).get(name)
  return name => Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
}
