/**
 * A store of idempotency keys. A key is in one of three states:
 *
 *   unknown ──claim──► in progress ──complete──► done ──clear, or expiry──► unknown
 *      ▲                │   ▲   │
 *      │                │   └───┘ renew; or a claim that takes an expired lease over
 *      └──release, clear┘
 *
 * Every implementation guarantees:
 *
 * - **Each verb is atomic**, also between processes. Of any number of concurrent claims, at most one is fresh.
 * - **A fresh claim has a token that no other claim ever had.** It is the fence: only the holder of the key's current
 *   token can renew, complete or release it. With any other token these verbs change nothing.
 * - **An expired lease still belongs to its owner until a claim takes it over.** Until then the owner may renew or
 *   complete; afterwards its token is stale.
 * - **A done key does not change** until it is cleared or expires. Its fingerprint and result come back byte for byte:
 *   the store never interprets them.
 * - **Leases run on the store's clock**, so that callers with different clocks agree. A lease has expired at exactly
 *   its end.
 * - **A verb that rejects may or may not have taken effect.** Every verb but `claim` is idempotent and may be sent
 *   again.
 *
 * Keys have 1 to 255 characters and are compared exactly (case, accents and spaces count). An implementation whose
 * connection can hang sets a timeout on its calls.
 */
export interface IdempotencyStore {
  /**
   * Takes the key if it is unknown, or if it is in progress, its lease has expired and its fingerprint is the same.
   * Otherwise changes nothing and returns the key's state; the caller compares the fingerprints.
   */
  claim(key: string, request: IdempotencyClaimRequest): Promise<IdempotencyClaim>

  /**
   * Extends the lease to `leaseMs` from now. Returns false without a change if the token is stale or the key is done.
   */
  renew(key: string, token: string, leaseMs: number): Promise<boolean>

  /**
   * Marks the key as done, with its result. Returns false without a change if the token is stale. Returns true without
   * a change if the same token has completed it before: the first answer may have been lost in transit.
   */
  complete(key: string, token: string, result: string): Promise<boolean>

  /** Makes a key in progress unknown again. Does nothing if the token is stale or the key is done. */
  release(key: string, token: string): Promise<void>

  /** Forgets the key, whatever its state. An owner's token becomes stale. */
  clear(key: string): Promise<void>
}

/** The parameters of a claim. */
export interface IdempotencyClaimRequest {
  /** The hash of the work's parameters, in 64 hex digits. */
  readonly fingerprint: string
  /** How long the key belongs to the claimant, unless it renews. */
  readonly leaseMs: number
}

/** The result of a claim. */
export type IdempotencyClaim =
  /** The key now belongs to the claimant. */
  | { readonly state: 'fresh'; readonly token: string }
  /** Another caller owns the key. The lease is given as time left, since clocks may differ; 0 once expired. */
  | { readonly state: 'in_progress'; readonly fingerprint: string; readonly leaseLeftMs: number }
  | IdempotencyDone

/** The state of a key whose work is done, with the text of its result. */
export interface IdempotencyDone {
  readonly state: 'done'
  /** The hash of the parameters that it was done with. */
  readonly fingerprint: string
  /** The result as text, as `complete` was given it. */
  readonly result: string
}
