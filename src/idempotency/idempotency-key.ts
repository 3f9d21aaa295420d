import { hashJson, OptionError } from '../policy/index.js'
import { plainJson, problemOf } from '../policy/internal.js'
import { IdempotencyKeyError, IdempotencyParamsError } from './errors.js'

/** The parts that identify a request. Requests with equal parts get the same key. */
export interface IdempotencyKeyParts {
  /** The name of the operation, such as `'charge card'`. */
  readonly operation: string
  /** A missing tenant equals an empty one. */
  readonly tenantId?: string
  /** A missing correlation id equals an empty one. */
  readonly correlationId?: string
  /** Plain data; the order of keys is irrelevant at every depth. Missing parameters equal `{}`. */
  readonly params?: unknown
}

/** The maximum length of a key, so that every store can index it. */
export const MAX_KEY_LENGTH = 255

/**
 * Derives a key from a request: the SHA-256 of its canonical JSON (RFC 8785), in 64 hex digits.
 *
 * ```ts
 * idempotencyKey({ operation: 'charge card', tenantId: 'acme', params: { order: 42, cents: 1999 } })
 * ```
 */
export function idempotencyKey({ operation, tenantId, correlationId, params }: IdempotencyKeyParts): string {
  if (typeof operation !== 'string' || operation === '') {
    throw new OptionError('operation', `'operation' must say what is done, got ${JSON.stringify(operation)}.`)
  }
  return hash(operation, params, plain => ({
    operation,
    tenantId: tenantId ?? '',
    correlationId: correlationId ?? '',
    params: plain,
  }))
}

/** Hashes the parameters that a key is used with, to detect a reuse with other parameters. */
export function fingerprint(key: string, params: unknown): string {
  return hash(key, params, plain => plain)
}

/** Throws unless every store can keep the key. */
export function checkKey(key: unknown): asserts key is string {
  if (typeof key !== 'string') throw new IdempotencyKeyError(key, 'must be text')
  if (key === '') throw new IdempotencyKeyError(key, 'is empty')
  if (key.length > MAX_KEY_LENGTH) throw new IdempotencyKeyError(key, `has more than ${MAX_KEY_LENGTH} characters`)
  if (/[\p{Cc}\p{Surrogate}]/u.test(key)) {
    throw new IdempotencyKeyError(key, 'contains control characters or unpaired surrogates')
  }
}

function hash(what: string, params: unknown, of: (plain: unknown) => unknown): string {
  try {
    return hashJson(of(JSON.parse(plainJson(params ?? {}) ?? '{}')))
  } catch (error) {
    throw new IdempotencyParamsError(what, problemOf(error), { cause: error })
  }
}
