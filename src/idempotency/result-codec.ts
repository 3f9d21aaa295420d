import { plainJson, problemOf } from '../policy/internal.js'
import { IdempotencyResultUnavailableError } from './errors.js'

/*
 * The stored form of a result, as JSON text:
 *
 *   {"value":…}          the result
 *   {}                   the result `undefined`
 *   {"unavailable":"…"}  the work is done, but its result could not be stored, for this reason
 */

/** Encodes a result for the store. Never throws: a result that JSON cannot represent is marked as unavailable. */
export function encodeResult(result: unknown): string {
  try {
    return encodeStorable(result)
  } catch (error) {
    return unavailable(problemOf(error))
  }
}

/** Encodes a result for the store. Throws if JSON cannot represent it. */
export function encodeStorable(result: unknown): string {
  const json = plainJson(result)
  return json === undefined ? '{}' : `{"value":${json}}`
}

/** Encodes that the work is done but its result is unavailable. */
export function unavailable(reason: string): string {
  return JSON.stringify({ unavailable: reason })
}

/** Decodes a stored result. Throws an `IdempotencyResultUnavailableError` if there is none. */
export function decodeResult(key: string, text: string): unknown {
  const stored = parse(key, text)
  if ('unavailable' in stored) throw new IdempotencyResultUnavailableError(key, String(stored.unavailable))
  return 'value' in stored ? stored.value : undefined
}

function parse(key: string, text: string): object {
  try {
    const stored: unknown = JSON.parse(text)
    if (typeof stored === 'object' && stored !== null) return stored
  } catch (error) {
    throw new IdempotencyResultUnavailableError(key, 'what is stored is not JSON', { cause: error })
  }
  throw new IdempotencyResultUnavailableError(key, 'what is stored was not written by an idempotency guard')
}
