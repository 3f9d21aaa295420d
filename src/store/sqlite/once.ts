import {
  checkKey,
  decodeResult,
  encodeResult,
  fingerprint as fingerprintOf,
  IdempotencyInProgressError,
  IdempotencyMismatchError,
} from '../../idempotency/index.js'
import { FinalError } from '../../policy/index.js'
import { StaleFenceError } from '../errors.js'
import type { Connection } from './driver.js'
import { claimKey } from './idempotency-keys.js'
import type { Statements } from './statements.js'
import { placeOf } from './token.js'

/** What a `once` may be given besides its key and its function. */
export interface OnceOptions {
  /** What the function is asked to do, as plain data. The same key with other parameters is an error. */
  readonly params?: unknown
  /** The claimed task on whose behalf it runs: it does not run if that is somebody else's by now. */
  readonly fence?: { readonly id: string; readonly token: string }
}

/** Runs a function under a key, or gives back what it returned before. To be called within a transaction. */
export function once<T>(
  db: Connection,
  statements: Statements,
  key: string,
  fn: (db: Connection) => T,
  { params, fence }: OnceOptions,
  now: number,
): T {
  checkKey(key)
  const fingerprint = fingerprintOf(key, params)
  const claim = claimKey(statements, key, { fingerprint, leaseMs: 0 }, now)
  if (claim.state !== 'fresh') {
    if (claim.fingerprint !== fingerprint) throw new IdempotencyMismatchError(key)
    if (claim.state === 'in_progress') throw new IdempotencyInProgressError(key, claim.leaseLeftMs)
    // The caller says what its key stands for: a store cannot know types.
    return decodeResult(key, claim.result) as T
  }
  // Who has the result already has it, whoever asks; only a run is fenced.
  if (fence !== undefined && !isHeld(statements, fence)) throw new StaleFenceError(key, fence.id)

  const result = fn(db)
  if (isThenable(result)) {
    throw new FinalError(`The function under '${key}' is asynchronous: a transaction of SQLite cannot wait for it.`, {
      code: 'once_async',
    })
  }
  statements.completeKey.run(encodeResult(result), key, claim.token)
  return result
}

function isHeld(statements: Statements, { id, token }: { readonly id: string; readonly token: string }): boolean {
  const place = placeOf(token)
  return place !== undefined && statements.running.get(place.seq, token, id) !== undefined
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
