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

  renew(key: string, token: string, leaseMs: number): Promise<boolean> {
    return this.#change(RENEW, [key, token, leaseMs, this.#database.at])
  }

  complete(key: string, token: string, result: string): Promise<boolean> {
    return this.#change(COMPLETE_KEY, [key, token, result, this.#database.at])
  }

  async release(key: string, token: string): Promise<void> {
    await this.#change(RELEASE, [key, token])
  }

  async clear(key: string): Promise<void> {
    await this.#change(CLEAR, [key])
  }

  async #change(text: string, values: unknown[]): Promise<boolean> {
    return (await this.#database.query(text, values)).length > 0
  }
}

const RENEW = /* sql */ `
  UPDATE redrive.idempotency SET until = ceil(redrive.now_ms($4) + $3::float8)
  WHERE key = $1 AND token = $2 AND result IS NULL
  RETURNING true`

/** A key keeps its first result: the answer to the first call may have been lost. */
export const COMPLETE_KEY = /* sql */ `
  UPDATE redrive.idempotency SET result = coalesce(result, $3), done_at = coalesce(done_at, redrive.now_ms($4))
  WHERE key = $1 AND token = $2
  RETURNING true`

const RELEASE = /* sql */ `
  DELETE FROM redrive.idempotency WHERE key = $1 AND token = $2 AND result IS NULL`

const CLEAR = /* sql */ `
  DELETE FROM redrive.idempotency WHERE key = $1`
