import { classNameOf } from './class-name.js'
import { parseDuration } from './duration.js'
import { PolicyError } from './errors.js'
import type { Policy, PolicyInput } from './policy.js'

/** How one field is read: what it is when it is left out, and what it must be otherwise. */
interface Rule {
  readonly byDefault?: unknown
  /** The value as a policy keeps it, or `undefined` if it is not what is expected. */
  readonly read: (value: unknown, path: string) => unknown
  readonly expected: string
}
type Rules = Readonly<Record<string, Rule>>
type Fields = Readonly<Record<string, unknown>>

const base = duration('1s')
const max = duration('30s')
const factor = { byDefault: 2, read: within(1, Number.MAX_VALUE), expected: 'a finite number, 1 or more' }
const ratio = { byDefault: 0.1, read: within(0, 1), expected: 'a number from 0 to 1' }
const match = {
  read: readMatch,
  expected: `an HTTP status, a range such as '5xx', an error code or an error class with a name (a predicate goes into 'classify')`,
}

const POLICY: Rules = {
  attempts: whole(3, 1),
  deferrals: whole(0, 0),
  backoff: oneOf({
    exponential: { base, factor, max },
    none: {},
    fixed: { base },
    linear: { base, max },
    decorrelated: { base, max },
  }),
  jitter: oneOf({ full: {}, none: {}, equal: {}, proportional: { ratio } }),
  timeout: {
    read: value => parseDuration(value) || undefined,
    expected: `a duration above 0 such as 250, '5s' or '5m'`,
  },
  ttl: duration(),
  maxRetryAfter: duration('24h'),
  retryOn: {
    read: (value, path) => (value === 'all' || value === 'none' ? value : readMatches(value, path)),
    expected: `'all', 'none' or a list`,
  },
  giveUpOn: { byDefault: [], read: readMatches, expected: 'a list' },
}

/** Marks what `policy()` has made, so that it is validated once. Not enumerable: it is not part of the data. */
const PARSED = Symbol('redrive.policy')

/**
 * Makes a policy out of what people write: validates it, fills in the defaults, turns durations into milliseconds.
 *
 * ```ts
 * policy({ attempts: 5, backoff: { base: '250ms', max: '10s' }, giveUpOn: [404, 'ValidationError'] })
 * ```
 */
export function policy(input: PolicyInput = {}): Policy {
  if (isParsed(input)) return input
  const isRandom = kindOf(input?.backoff) === 'decorrelated'
  if (isRandom && (kindOf(input.jitter) ?? 'none') !== 'none')
    throw wrong('jitter', 'left out: a decorrelated backoff is random by itself', input.jitter)

  // The rules above read exactly the fields of a Policy, which the type checker cannot see.
  const parsed = readFields('', isRandom ? { ...input, jitter: 'none' } : input, POLICY) as unknown as Policy
  const { backoff } = parsed
  if ('max' in backoff && backoff.max < backoff.base)
    throw wrong('backoff.max', `at least 'backoff.base', ${backoff.base} ms (it is 30s if left out)`, backoff.max)
  Object.defineProperty(parsed, PARSED, { value: parsed })
  return Object.freeze(parsed)
}

/** The mark is the policy itself, so that what inherits from one is not taken for one. */
function isParsed(input: PolicyInput & { readonly [PARSED]?: unknown }): input is Policy {
  return typeof input === 'object' && input !== null && input[PARSED] === input
}

function readFields(path: string, input: unknown, rules: Rules): Fields {
  if (!isObject(input)) throw wrong(path || 'policy', 'an object', input)
  const names = Object.keys(rules)
  const fields = Object.entries(input).filter(([, value]) => value !== undefined)
  const [unknown] = fields.find(([name]) => !names.includes(name)) ?? []
  if (unknown !== undefined)
    throw wrong(join(path, unknown), `left out: the fields are ${names.join(', ')}`, input[unknown])

  const read = names.map(name => [name, readField(join(path, name), input[name], rules[name] as Rule)])
  return Object.fromEntries(read.filter(([, value]) => value !== undefined))
}

function readField(path: string, given: unknown, { byDefault, read, expected }: Rule): unknown {
  const value = given === undefined ? byDefault : given
  const result = value === undefined ? undefined : read(value, path)
  if (value !== undefined && result === undefined) throw wrong(path, expected, value)
  return result
}

/** Reads what is written as `'full'` or as `{ kind: 'full', … }`; the first kind is the default. */
function oneOf(kinds: Readonly<Record<string, Rules>>): Rule {
  const names = Object.keys(kinds)
  const kind = {
    byDefault: names[0],
    read: (value: unknown) => names.find(name => name === value),
    expected: `one of ${names.join(', ')}`,
  }
  const read = (value: unknown, path: string) => {
    const fields = typeof value === 'string' ? { kind: value } : value
    const named = readField(join(path, 'kind'), kindOf(fields), kind) as string
    return Object.freeze(readFields(path, fields, { kind, ...kinds[named] }))
  }
  return { byDefault: {}, read, expected: 'a kind' }
}

function kindOf(value: unknown): unknown {
  return isObject(value) ? value.kind : value
}

function duration(byDefault?: string): Rule {
  return { byDefault, read: parseDuration, expected: `a duration such as 250, '250ms', '5m' or '24h'` }
}

function whole(byDefault: number, min: number): Rule {
  const read = (value: unknown) => (Number.isSafeInteger(value) ? within(min, Infinity)(value) : undefined)
  return { byDefault, read, expected: `a whole number, ${min} or more` }
}

function within(low: number, high: number): (value: unknown) => number | undefined {
  return value => (typeof value === 'number' && value >= low && value <= high ? value : undefined)
}

function readMatches(value: unknown, path: string): unknown {
  if (!Array.isArray(value)) return undefined
  return Object.freeze(Array.from(value, (entry, i) => readField(`${path}[${i}]`, entry ?? null, match)))
}

function readMatch(entry: unknown): unknown {
  const value = isErrorClass(entry) ? classNameOf(entry.prototype) : entry
  if (typeof value === 'string') return value || undefined
  return Number.isInteger(value) ? within(100, 599)(value) : undefined
}

function isErrorClass(value: unknown): value is typeof Error {
  return value === Error || (typeof value === 'function' && value.prototype instanceof Error)
}

function join(path: string, name: string): string {
  return path ? `${path}.${name}` : name
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function wrong(field: string, expected: string, value: unknown): PolicyError {
  return new PolicyError(field, `'${field}' must be ${expected}; got ${shown(value)}.`)
}

function shown(value: unknown): string {
  if (typeof value === 'string') return `'${value.slice(0, 40)}'`
  if (Array.isArray(value)) return 'a list'
  return isObject(value) ? 'an object' : typeof value === 'function' ? 'a function' : String(value)
}
