import type { IdempotencyClaim, IdempotencyClaimRequest, IdempotencyStore } from '../../idempotency/index.js'
import type { Database } from './database.js'

/** Keeps idempotency keys in the database, beside the tasks. */
export class PostgresIdempotencyKeys implements IdempotencyStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async claim(key: string, { fingerprint, leaseMs }: IdempotencyClaimRequest): Promise<IdempotencyClaim> {
    const token = crypto.randomUUID()
    const answer = await this.#database.call('claim_key', [key, fingerprint, token, leaseMs, this.#database.at])
    return JSON.parse(String(answer)) as IdempotencyClaim
  }

  async renew(key: string, token: string, leaseMs: number): Promise<boolean> {
    return (await this.#database.call('renew_key', [key, token, leaseMs, this.#database.at])) === true
  }

  async complete(key: string, token: string, result: string): Promise<boolean> {
    return (await this.#database.call('complete_key', [key, token, result, this.#database.at])) === true
  }

  async release(key: string, token: string): Promise<void> {
    await this.#database.call('release_key', [key, token])
  }

  async clear(key: string): Promise<void> {
    await this.#database.call('release_key', [key, null])
  }
}
