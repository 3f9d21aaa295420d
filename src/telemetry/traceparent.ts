/**
 * A trace's place as W3C's `traceparent` gives it, in version 00: the id of the trace, the id of a span, and flags. Nothing
 * else of a trace is kept: baggage and `tracestate` may hold anything.
 */
const FORM = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** Later versions begin as version 00 does, and may go on after that. There is no version ff. */
const LATER_FORM = /^(?!00|ff)[0-9a-f]{2}(-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(?:-.{0,512})?$/

/** Whether this is a `traceparent` as it is kept. */
export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && FORM.test(value)
}

/** The `traceparent` among the headers of a message, which may come from anywhere. `undefined` if there is none, or no valid one. */
export function traceparentOf(headers: Readonly<Record<string, string>>): string | undefined {
  const name = Object.keys(headers).find(name => name.toLowerCase() === 'traceparent')
  return name && readTraceparent(headers[name])
}

/** Reads a header as it is kept. `undefined` if it is no `traceparent`. */
export function readTraceparent(header: unknown): string | undefined {
  if (typeof header !== 'string') return undefined
  const own = header.replace(LATER_FORM, '00$1')
  return FORM.test(own) ? own : undefined
}

/** The id of the trace: 32 hexadecimal digits. */
export function traceIdOf(traceparent: string | undefined): string | undefined {
  return traceparent?.slice(3, 35)
}
