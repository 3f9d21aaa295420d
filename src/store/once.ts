import { type IdempotencyClaim, IdempotencyInProgressError, IdempotencyMismatchError } from '../idempotency/index.js'
import { checkKey, decodeResult, fingerprint } from '../idempotency/internal.js'

/** The fingerprint under which a `once` claims its key. Throws if the key or the parameters are invalid. */
export function onceFingerprint(key: string, params: unknown): string {
  checkKey(key)
  return fingerprint(key, params)
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
