import { formatDuration, parseDuration } from './duration.js'
import { PolicyError } from './errors.js'
import type { Backoff, FailureMatch, Jitter, Policy, PolicyInput } from './policy.js'

const FIELDS = ['attempts', 'deferrals', 'backoff', 'jitter', 'timeout', 'ttl', 'maxRetryAfter', 'retryOn', 'giveUpOn']
const JITTER_KINDS = ['none', 'full', 'equal', 'proportional'] as const
const BACKOFF_FIELDS = {
  none: [],
  fixed: ['base'],
  linear: ['base', 'max'],
  exponential: ['base', 'factor', 'max'],
  decorrelated: ['base', 'max'],
} as const

/** Marks what `policy()` has made, so that it is validated once. Not enumerable: it is not part of the data. */
const PARSED = Symbol('redrive.policy')

type Fields = Record<string, unknown>

/**
 * Makes a policy out of what people write: validates it, fills in the defaults, turns durations into milliseconds.
 *
 * ```ts
 * policy({ attempts: 5, backoff: { base: '250ms', max: '10s' }, giveUpOn: [404, 'ValidationError'] })
 * ```
 */
export function policy(input: PolicyInput = {}): Policy {
  if (isParsed(input)) return input
  const fields = object('policy', input, FIELDS)
  const backoff = parseBackoff(fields.backoff)
  const parsed: Policy = {
    attempts: integer('attempts', fields.attempts ?? 3, 1),
    deferrals: integer('deferrals', fields.deferrals ?? 0, 0),
    backoff,
    jitter: parseJitter(fields.jitter, backoff),
    ...(fields.timeout !== undefined && { timeout: positive('timeout', duration('timeout', fields.timeout)) }),
    ...(fields.ttl !== undefined && { ttl: duration('ttl', fields.ttl) }),
    maxRetryAfter: duration('maxRetryAfter', fields.maxRetryAfter ?? '24h'),
    ...(fields.retryOn !== undefined && { retryOn: parseRetryOn(fields.retryOn) }),
    giveUpOn: matches('giveUpOn', fields.giveUpOn ?? []),
  }
  Object.defineProperty(parsed, PARSED, { value: true })
  return deepFreeze(parsed)
}

/** Lays one policy over another, field by field; a backoff of the same kind, part by part. */
export function extendPolicy(base: PolicyInput, over: PolicyInput): Policy {
  const merged: Fields = { ...base }
  for (const [field, value] of Object.entries(over)) if (value !== undefined) merged[field] = value
  if (
    isObject(over.backoff) &&
    isObject(base.backoff) &&
    (over.backoff.kind ?? base.backoff.kind) === base.backoff.kind
  ) {
    merged.backoff = { ...base.backoff, ...over.backoff }
  }
  // A backoff that is random by itself replaces the jitter it was laid over.
  if (isObject(merged.backoff) && merged.backoff.kind === 'decorrelated' && over.jitter === undefined)
    delete merged.jitter
  return policy(merged)
}

function isParsed(input: PolicyInput): input is Policy {
  return typeof input === 'object' && input !== null && PARSED in input
}

function parseBackoff(value: unknown = {}): Backoff {
  const given = typeof value === 'string' ? { kind: value } : isObject(value) ? value : {}
  if (typeof value !== 'string') object('backoff', value, ['kind', 'base', 'factor', 'max'])
  const kind = oneOf('backoff.kind', given.kind ?? 'exponential', Object.keys(BACKOFF_FIELDS) as Backoff['kind'][])
  object('backoff', given, ['kind', ...BACKOFF_FIELDS[kind]], ` of kind '${kind}'`)
  if (kind === 'none') return { kind }

  const base = duration('backoff.base', given.base ?? '1s')
  if (kind === 'fixed') return { kind, base }

  const max = duration('backoff.max', given.max ?? '30s')
  if (max < base) {
    const shown = `${formatDuration(max)}${given.max === undefined ? ' by default' : ''}`
    throw new PolicyError('backoff.max', `'backoff.max' (${shown}) is below 'backoff.base' (${formatDuration(base)}).`)
  }
  if (kind !== 'exponential') return { kind, base, max }
  return { kind, base, factor: number('backoff.factor', given.factor ?? 2, 1, Number.MAX_SAFE_INTEGER), max }
}

function parseJitter(value: unknown, backoff: Backoff): Jitter {
  const given = typeof value === 'string' ? { kind: value } : object('jitter', value ?? {}, ['kind', 'ratio'])
  const kind = oneOf('jitter.kind', given.kind ?? (backoff.kind === 'decorrelated' ? 'none' : 'full'), JITTER_KINDS)
  if (backoff.kind === 'decorrelated' && kind !== 'none') {
    throw new PolicyError('jitter', `'jitter' must be left out: a decorrelated backoff is random by itself.`)
  }
  if (kind === 'proportional') return { kind, ratio: number('jitter.ratio', given.ratio ?? 0.1, 0, 1) }
  object('jitter', given, ['kind'], ` of kind '${kind}'`)
  return { kind }
}

function parseRetryOn(value: unknown): 'all' | 'none' | readonly FailureMatch[] {
  return value === 'all' || value === 'none' ? value : matches('retryOn', value, `'all', 'none' or `)
}

function matches(field: string, value: unknown, orElse = ''): readonly FailureMatch[] {
  if (!Array.isArray(value)) throw wrong(field, `${orElse}a list of statuses, codes and error classes`, value)
  return value.map((entry, index) => match(`${field}[${index}]`, entry))
}

function match(field: string, entry: unknown): FailureMatch {
  if (typeof entry === 'number' && Number.isInteger(entry) && entry >= 100 && entry <= 599) return entry
  if (typeof entry === 'string' && entry !== '') return entry
  if (typeof entry === 'function' && isErrorClass(entry) && entry.name !== '') return entry.name
  const predicate = typeof entry === 'function' ? ` A predicate is code, not data: give it as 'classify'.` : ''
  throw wrong(field, `an HTTP status, a range such as '5xx', an error code or an error class`, entry, predicate)
}

function isErrorClass(value: { prototype?: unknown }): boolean {
  return value.prototype === Error.prototype || value.prototype instanceof Error
}

function duration(field: string, value: unknown): number {
  const ms = parseDuration(value)
  if (ms === undefined) throw wrong(field, `a duration such as 250, '250ms', '5m' or '24h' (at most 100 years)`, value)
  return ms
}

function positive(field: string, value: number): number {
  if (value === 0) throw wrong(field, 'longer than 0', value)
  return value
}

function integer(field: string, value: unknown, min: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < min)
    throw wrong(field, `a whole number, ${min} or more`, value)
  return value as number
}

function number(field: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && value >= min && value <= max) return value
  throw wrong(field, max > 1 ? `a number, ${min} or more` : `a number from ${min} to ${max}`, value)
}

function oneOf<T extends string>(field: string, value: unknown, kinds: readonly T[]): T {
  if (kinds.includes(value as T)) return value as T
  throw wrong(field, `one of ${kinds.join(', ')}`, value)
}

function object(field: string, value: unknown, known: readonly string[], which = ''): Fields {
  if (!isObject(value)) throw wrong(field, 'an object', value)
  const unknown = Object.keys(value).find(key => value[key] !== undefined && !known.includes(key))
  if (unknown === undefined) return value
  const path = field === 'policy' ? unknown : `${field}.${unknown}`
  throw new PolicyError(path, `there is no field '${path}'${which}. The fields are: ${known.join(', ')}.`)
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function wrong(field: string, expected: string, value: unknown, hint = ''): PolicyError {
  return new PolicyError(field, `'${field}' must be ${expected}, got ${show(value)}.${hint}`)
}

function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.slice(0, 40)}'`
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === 'object') deepFreeze(part)
  return Object.freeze(value)
}
