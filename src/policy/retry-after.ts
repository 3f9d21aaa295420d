type Source = Readonly<Record<string, unknown>>

/**
 * How many milliseconds a failed request asks to wait: from `retryAfterMs`, `retryAfter` or the headers `Retry-After`,
 * `RateLimit` and `RateLimit-Reset`, in that order. What is negative or cannot be read is ignored.
 */
export function retryAfter(error: Source, response: Source, status: number | undefined, now: number) {
  if (typeof error.retryAfterMs === 'number' && error.retryAfterMs >= 0) return error.retryAfterMs
  const header = headerReader(response.headers ?? error.headers)
  const asked = wait(error.retryAfter, now) ?? wait(header('retry-after'), now)
  // A quota is told with any answer; it is what to wait for only where it is used up.
  if (asked !== undefined || status !== 429) return asked
  // `limit=10, remaining=0, reset=30`, or as structured fields `"default";r=0;t=30`
  return seconds(/\b(?:reset|t)=(\d+)/.exec(String(header('ratelimit')))?.[1]) ?? seconds(header('ratelimit-reset'))
}

/** RFC 9110 has it as seconds, or as the date from which on to try again. */
function wait(value: unknown, now: number): number | undefined {
  const date = typeof value === 'string' && /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun).*:\d\d/.test(value) && value
  // It is GMT even where it does not say so.
  const ms = date ? Date.parse(`${date} GMT`) - now : NaN
  return ms >= 0 ? ms : seconds(value)
}

function seconds(value: unknown): number | undefined {
  const amount = typeof value === 'string' && /^\s*\d+(\.\d+)?\s*$/.test(value) ? Number(value) : value
  return typeof amount === 'number' && amount >= 0 ? amount * 1000 : undefined
}

/** Reads a header by its name in lower case; of several values, the first. */
function headerReader(headers: unknown): (name: string) => unknown {
  if (typeof headers !== 'object' || headers === null) return () => undefined
  if ('get' in headers && typeof headers.get === 'function') return name => (headers as Headers).get(name)
  return name => [Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]].flat()[0]
}
