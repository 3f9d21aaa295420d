import { type IdempotencyClaim, IdempotencyInProgressError, IdempotencyMismatchError } from '../../idempotency/index.js'
import { checkKey, decodeResult, encodeStorable, fingerprint } from '../../idempotency/internal.js'
import { OnceResultError } from '../contract/errors.js'

/** The fingerprint under which a `once` claims its key. Throws if the key or the parameters are invalid. */
export function onceFingerprint(key: string, params: unknown): string {
  checkKey(key)
  return fingerprint(key, params)
}

/**
 * Encodes the result of a `once`. Throws if it cannot be stored, so that nothing is committed: with the work done and no
 * result to give, every later run would fail.
 */
export function onceResult(key: string, result: unknown): string {
  try {
    return encodeStorable(result)
  } catch (cause) {
    throw new OnceResultError(key, cause)
  }
}

/** Answers a `once` whose key is taken: with the stored result, or with an error. */
export function knownResult(
  key: string,
  fingerprint: string,
  claim: Exclude<IdempotencyClaim, { readonly state: 'fresh' }>,
): unknown {
  if (claim.fingerprint !== fingerprint) throw new IdempotencyMismatchError(key)
  if (claim.state === 'in_progress') throw new IdempotencyInProgressError(key, claim.leaseLeftMs)
  return decodeResult(key, claim.result)
}
