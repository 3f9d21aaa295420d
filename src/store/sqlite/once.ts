import { StaleFenceError } from '../contract/errors.js'
import type { OnceOptions } from '../contract/store.js'
import { knownResult, onceFingerprint, onceResult } from '../rules/once.js'
import { claimKey, completeKey } from './idempotency-keys.js'
import type { Statements } from './statements.js'
import { held, placeOf } from './token.js'

/** Runs a function under a key, or returns its stored result. Within a transaction. */
export function once<T>(
  statements: Statements,
  key: string,
  work: () => Awaited<T>,
  { params, fence }: OnceOptions,
  now: number,
): Awaited<T> {
  const fingerprint = onceFingerprint(key, params)
  const claim = claimKey(statements, key, { fingerprint, leaseMs: 0 }, now)
  // Only the caller knows the type of the result that was stored under its key.
  if (claim.state !== 'fresh') return knownResult(key, fingerprint, claim) as Awaited<T>
  // The fence guards the run, not the result: a stored result is given to anybody.
  if (fence !== undefined && !isHeld(statements, fence)) throw new StaleFenceError(key, fence.id)

  const result = work()
  completeKey(statements, key, claim.token, onceResult(key, result), now)
  return result
}

function isHeld(statements: Statements, { id, token }: { readonly id: string; readonly token: string }): boolean {
  const place = placeOf(token)
  return place !== undefined && statements.running.get(...held(place, id)) !== undefined
}
