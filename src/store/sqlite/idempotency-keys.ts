import type { IdempotencyClaim, IdempotencyClaimRequest, IdempotencyStore } from '../../idempotency/index.js'
import type { GroupCommit } from './group-commit.js'
import type { Statements } from './statements.js'

/** Keeps idempotency keys in the file, beside the tasks. */
export class SqliteIdempotencyKeys implements IdempotencyStore {
  readonly #statements: Statements
  readonly #commits: GroupCommit
  readonly #now: () => number

  constructor(statements: Statements, commits: GroupCommit, now: () => number) {
    this.#statements = statements
    this.#commits = commits
    this.#now = now
  }

  claim(key: string, request: IdempotencyClaimRequest): Promise<IdempotencyClaim> {
    return this.#commits.write(() => claimKey(this.#statements, key, request, this.#now()))
  }

  renew(key: string, token: string, leaseMs: number): Promise<boolean> {
    const renewal = { key, token, leaseMs: Math.ceil(leaseMs) }
    return this.#commits.write(
      () => this.#statements.renewKey.run({ ...renewal, now: Math.ceil(this.#now()) }).changes > 0,
    )
  }

  complete(key: string, token: string, result: string): Promise<boolean> {
    return this.#commits.write(() => completeKey(this.#statements, key, token, result, this.#now()))
  }

  async release(key: string, token: string): Promise<void> {
    await this.#commits.write(() => this.#statements.releaseKey.run(key, token))
  }

  async clear(key: string): Promise<void> {
    await this.#commits.write(() => this.#statements.clearKey.run(key))
  }
}

/** Takes a key if it is free, or returns its state. Within a transaction. */
export function claimKey(
  statements: Statements,
  key: string,
  { fingerprint, leaseMs }: IdempotencyClaimRequest,
  now: number,
): IdempotencyClaim {
  const found = statements.key.get(key)
  if (found !== undefined) {
    if (found.result !== null) return { state: 'done', fingerprint: found.fingerprint, result: found.result }
    if (found.until > now || found.fingerprint !== fingerprint) {
      const left = Math.min(found.until - now, found.lease_ms ?? Infinity)
      if (left < found.until - now) statements.boundKey.run({ key, now: Math.ceil(now) })
      return { state: 'in_progress', fingerprint: found.fingerprint, leaseLeftMs: Math.max(0, left) }
    }
  }
  const token = crypto.randomUUID()
  statements.takeKey.run({ key, fingerprint, token, now: Math.ceil(now), leaseMs: Math.ceil(leaseMs) })
  return { state: 'fresh', token }
}

/** Completes a key. Returns false if the token is stale. Within a transaction. */
export function completeKey(statements: Statements, key: string, token: string, result: string, now: number): boolean {
  return statements.completeKey.run({ key, token, result, now }).changes > 0
}
