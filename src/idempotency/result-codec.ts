import { plainJson, problemOf } from '../policy/internal.js'
import { IdempotencyResultUnavailableError } from './errors.js'

/*
 * What stands in the store for a result, as JSON text:
 *
 *   {"value":…}          the result
 *   {}                   the result `undefined`
 *   {"unavailable":"…"}  the work is done, its result could not be stored, and this is why
 */

/** The text that stands for a result in the store. Never throws: what JSON cannot hold is marked as unavailable. */
export function encodeResult(result: unknown): string {
  try {
    const json = plainJson(result)
    return json === undefined ? '{}' : `{"value":${json}}`
  } catch (error) {
    return unavailable(problemOf(error))
  }
}

/** The text that says: done, but without a result to give. */
export function unavailable(reason: string): string {
  return JSON.stringify({ unavailable: reason })
}

/** The result that a text stands for. Throws an `IdempotencyResultUnavailableError` when there is none. */
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
