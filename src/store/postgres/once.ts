import type { IdempotencyClaim } from '../../idempotency/index.js'
import { encodeResult } from '../../idempotency/internal.js'
import { StaleFenceError } from '../errors.js'
import { knownResult, onceFingerprint } from '../once.js'
import type { OnceOptions } from '../store.js'
import { type Database, inSchema, rowsOf } from './database.js'
import type { SqlClient } from './driver.js'
import { COMPLETE_KEY } from './idempotency-keys.js'
import { claimedBy } from './token.js'

/** Locks the task until the transaction ends, so that nobody rescues it meanwhile. */
const HOLD = /* sql */ `
  SELECT true FROM redrive.task
  WHERE id = $1 AND round = $2 AND advances = $3 AND state = redrive.state_running() FOR UPDATE`

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
    const held = await client.query(inSchema(HOLD, database.schema), [fence.id, round, advances])
    if (rowsOf(held).length === 0) throw new StaleFenceError(key, fence.id)
  }
  const result = await work(client)
  await client.query(inSchema(COMPLETE_KEY, database.schema), [key, token, encodeResult(result), database.at])
  return result
}
