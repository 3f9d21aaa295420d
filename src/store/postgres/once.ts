import type { IdempotencyClaim } from '../../idempotency/index.js'
import { encodeResult } from '../../idempotency/internal.js'
import { StaleFenceError } from '../errors.js'
import { knownResult, onceFingerprint } from '../once.js'
import type { OnceOptions } from '../store.js'
import { type Database, inSchema, rowsOf } from './database.js'
import type { SqlClient } from './driver.js'
import { COMPLETE_KEY } from './idempotency-keys.js'
import { claimedBy } from './token.js'

/** Holds the task until the transaction ends: whoever would rescue it leaves it alone meanwhile. */
const HOLD = /* sql */ `
  SELECT true FROM redrive.task WHERE id = $1 AND round = $2 AND state = 3 FOR UPDATE`

/**
 * Runs a function under a key, or gives back what it returned before. To be called within a transaction: until that ends,
 * others who come with the key wait.
 */
export async function once<T, Client extends SqlClient>(
  database: Database,
  client: Client,
  key: string,
  work: (client: Client) => T,
  { params, fence }: OnceOptions,
  now: number | null,
): Promise<Awaited<T>> {
  const fingerprint = onceFingerprint(key, params)
  const token = crypto.randomUUID()
  const answer = await database.callIn(client, 'claim_key', [key, fingerprint, token, 0, now])
  const claim = JSON.parse(String(answer)) as IdempotencyClaim
  // The caller says what its key stands for: a store cannot know types.
  if (claim.state !== 'fresh') return knownResult(key, fingerprint, claim) as Awaited<T>
  // Who has the result already has it, whoever asks; only a run is fenced.
  if (fence !== undefined) {
    const held = await client.query(inSchema(HOLD, database.schema), [fence.id, claimedBy(fence.token).round])
    if (rowsOf(held).length === 0) throw new StaleFenceError(key, fence.id)
  }
  const result = await work(client)
  await client.query(inSchema(COMPLETE_KEY, database.schema), [key, token, encodeResult(result), now])
  return result
}
