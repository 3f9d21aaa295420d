import { mustBe, unknownName } from './check-options.js'
import { classNameOf } from './class-name.js'
import { parseDuration } from './duration.js'
import { PolicyError } from './errors.js'
import { httpStatus } from './http-status.js'
import { isObject } from './is-object.js'
import type { Policy, PolicyInput } from './policy.js'

/** Reads one field: gives the value as a policy keeps it, or throws an error that names the path. */
type Reader = (value: unknown, path: string) => unknown
type Readers = Readonly<Record<string, Reader>>
type Fields = Readonly<Record<string, unknown>>
type Writable<T> = { -readonly [K in keyof T]: T[K] }

export const DURATION = `a duration such as 250 or '5m'`
const base = duration(1000)
const max = duration(30_000)
const factor = number('a number, 1 or more', 2, 1)
const ratio = number('a number from 0 to 1', 0.1, 0, 1)
const delays = field('a list of durations, 1 or more', listOf(duration(), 1))
const matches = listOf(field(`an HTTP status, '5xx', a code or an error class`, readMatch), 0)

const POLICY: Readers = {
  attempts: whole(3, 1),
  deferrals: whole(0, 0),
  losses: whole(3, 1),
  backoff: oneOf({
    exponential: { base, factor, max },
    none: {},
    fixed: { base },
    linear: { base, max },
    decorrelated: { base, max },
    // No default: they have to be given.
    list: { delays: (value = null, path) => delays(value, path) },
  }),
  jitter: oneOf({ full: {}, none: {}, equal: {}, proportional: { ratio } }),
  timeout: field(`${DURATION} above 0`, value => parseDuration(value) || undefined),
  ttl: duration(),
  maxRetryAfter: duration(86_400_000),
  retryOn: field(`'all', 'none' or a list`, (value, path) => (isAllOrNone(value) ? value : matches(value, path))),
  giveUpOn: field('a list', matches, Object.freeze([])),
}

/** All that `policy()` has made, so that it is validated once. */
const made = /* @__PURE__ */ new WeakSet<object>()

/** The latest inputs with their policies: a policy that is written inside a call is the same at every call. */
const recent: { readonly parts: readonly unknown[]; readonly parsed: Policy }[] = []
const MAX_RECENT = 8

/**
 * Creates a policy: validates the input, fills in the defaults, and converts durations to milliseconds.
 *
 * ```ts
 * policy({ attempts: 5, backoff: { base: '250ms', max: '10s' }, giveUpOn: [404, 'ValidationError'] })
 * ```
 */
export function policy(input: PolicyInput = {}): Policy {
  if (!isObject(input)) throw wrong('policy', 'an object', input)
  if (made.has(input)) return input as unknown as Policy
  for (const { parts, parsed } of recent) if (isSame(input, parts)) return parsed
  // The readers above give exactly the fields of a Policy, which the type checker cannot see.
  const parsed = readFields('', input, POLICY) as unknown as Writable<Policy>
  const { backoff, jitter } = parsed
  if (backoff.kind === 'decorrelated') {
    if (input.jitter !== undefined && jitter.kind !== 'none')
      throw wrong('jitter', "left out with 'decorrelated'", input.jitter)
    parsed.jitter = Object.freeze({ kind: 'none' })
  }
  if ('max' in backoff && backoff.max < backoff.base) throw wrong('backoff.max', "'backoff.base' or more", backoff.max)
  made.add(Object.freeze(parsed))
  const parts = partsOf(input)
  if (isSame(input, parts) && recent.unshift({ parts, parsed }) > MAX_RECENT) recent.pop()
  return parsed
}

/**
 * The parts of an input, which do not change with it: its class and length, then each name with its value, which has parts
 * of its own if it is an object or a list. A field that is undefined counts as left out.
 */
function partsOf(input: Fields): readonly unknown[] {
  const parts = [Array.isArray(input) ? Array : Object, input.length]
  for (const name in input) {
    const value = input[name]
    if (value === undefined) continue
    parts.push(name, hasParts(value) ? partsOf(value) : value)
  }
  return parts
}

/**
 * Whether an input has just these parts, in this order. An instance of a class never does: its parts may not show. They are
 * compared side by side, since looking up each name in another object would take as long as the call.
 */
function isSame(input: Fields, parts: readonly unknown[]): boolean {
  let i = 2
  for (const name in input) {
    const value = input[name]
    if (value === undefined) continue
    if (name !== parts[i++]) return false
    const known = parts[i++]
    if (value !== known && !(hasParts(value) && Array.isArray(known) && isSame(value, known))) return false
  }
  return i === parts.length && input.constructor === parts[0] && (parts[0] === Object || input.length === parts[1])
}

function hasParts(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null
}

function readFields(prefix: string, input: Fields, readers: Readers): Fields {
  for (const name in input) {
    if (input[name] !== undefined && !Object.hasOwn(readers, name))
      throw new PolicyError(prefix + name, unknownName('it', prefix, name, readers))
  }
  const fields: Record<string, unknown> = {}
  for (const name in readers) {
    const value = readers[name]?.(input[name], prefix + name)
    if (value !== undefined) fields[name] = value
  }
  return fields
}

/** A field that has a default or may be left out; `read` gives `undefined` for what is not as expected. */
function field(expected: string, read: Reader, byDefault?: unknown): Reader {
  return (value, path) => {
    if (value === undefined) return byDefault
    const result = read(value, path)
    if (result === undefined) throw wrong(path, expected, value)
    return result
  }
}

/** A field that is written as `'full'` or as `{ kind: 'full', … }`; the first kind is the default. */
function oneOf(kinds: Readonly<Record<string, Readers>>): Reader {
  const names = Object.keys(kinds)
  const kind = field(`one of ${names.join(', ')}`, value => names.find(name => name === value), names[0])
  return (value = {}, path) => {
    const fields = isObject(value) ? value : Array.isArray(value) ? { kind: 'list', delays: value } : { kind: value }
    const named = kind(fields.kind, `${path}.kind`) as string
    return Object.freeze(readFields(`${path}.`, fields, { kind, ...kinds[named] }))
  }
}

function duration(byDefault?: number): Reader {
  return field(DURATION, parseDuration, byDefault)
}

function whole(byDefault: number, min: number): Reader {
  return number(`a whole number, ${min} or more`, byDefault, min, Infinity, Number.isSafeInteger)
}

function number(expected: string, byDefault: number, min: number, max = Infinity, isNumber = Number.isFinite): Reader {
  const inRange = (value: unknown) =>
    isNumber(value) && Number(value) >= min && Number(value) <= max ? value : undefined
  return field(expected, inRange, byDefault)
}

function listOf(read: Reader, min: number): Reader {
  return (value, path) =>
    Array.isArray(value) && value.length >= min
      ? Object.freeze(Array.from(value, (entry, i) => read(entry ?? null, `${path}[${i}]`)))
      : undefined
}

function readMatch(entry: unknown): unknown {
  const value = isErrorClass(entry) ? classNameOf(entry.prototype) : entry
  return httpStatus(value) ?? (typeof value === 'string' && value && !isAllOrNone(value) ? value : undefined)
}

function isAllOrNone(value: unknown): boolean {
  return value === 'all' || value === 'none'
}

function isErrorClass(value: unknown): value is typeof Error {
  return typeof value === 'function' && (value === Error || value.prototype instanceof Error)
}

function wrong(field: string, expected: string, value: unknown): PolicyError {
  return new PolicyError(field, mustBe(field, expected, value))
}
