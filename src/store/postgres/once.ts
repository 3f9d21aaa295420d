import type { IdempotencyClaim } from '../../idempotency/index.js'
import { StaleFenceError } from '../contract/errors.js'
import type { OnceOptions } from '../contract/store.js'
import { knownResult, onceFingerprint, onceResult } from '../rules/once.js'
import type { Database } from './database.js'
import type { SqlClient } from './driver.js'
import { claimedBy } from './token.js'

/**
 * Runs a function under a key, or returns its stored result. Call it within a transaction: until that ends, other callers
 * with the same key wait.
 */
export async function once<T, Client extends SqlClient>(
  database: Database,
  client: Client,
  key: string,
  work: (client: Client) => T,
  { params, fence }: OnceOptions,
): Promise<Awaited<T>> {
  const fingerprint = onceFingerprint(key, params)
  const token = crypto.randomUUID()
  const answer = await database.callIn(client, 'claim_key', [key, fingerprint, token, 0, database.at])
  const claim = JSON.parse(String(answer)) as IdempotencyClaim
  // The key tells the caller the type of the result; a store cannot know it.
  if (claim.state !== 'fresh') return knownResult(key, fingerprint, claim) as Awaited<T>
  // A stored result is for any caller; only a run is fenced.
  if (fence !== undefined) {
    const { round, advances } = claimedBy(fence.token)
    const isHeld = await database.callIn(client, 'hold', [fence.id, round, advances])
    if (isHeld !== true) throw new StaleFenceError(key, fence.id)
  }
  const result = await work(client)
  await database.callIn(client, 'complete_key', [key, token, onceResult(key, result), database.at])
  return result
}
