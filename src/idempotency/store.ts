/**
 * Where idempotency keys live. A key is in one of three states:
 *
 *   unknown ──claim──► in progress ──complete──► done ──clear, or its time is over──► unknown
 *      ▲                │   ▲   │
 *      │                │   └───┘ renew; or a claim that takes an expired lease over
 *      └──release, clear┘
 *
 * What every implementation keeps, whatever happens around it:
 *
 * - **Each verb is atomic**, also between processes. Of any number of claims at once, at most one is fresh.
 * - **A claim that is fresh has a token that no other claim ever had.** It is the fence: only who shows the token that
 *   the key has now can renew, complete or release it. For all others these verbs change nothing.
 * - **An expired lease still belongs to its owner until a claim takes it over.** Until then the owner may renew or
 *   complete; afterwards its token is stale.
 * - **A done key stays as it is** until it is cleared or forgotten. Its fingerprint and result come back unchanged,
 *   to the byte: they are text, nothing that the store reads.
 * - **The store's clock counts the leases**, so that callers whose clocks differ agree. Exactly at its end a lease has
 *   expired.
 * - **A verb that rejects may or may not have happened.** Every verb but `claim` may be sent again.
 *
 * Keys are 1 to 255 characters, compared exactly (case, accents and spaces count). An implementation whose connection
 * can hang gives its calls a time limit.
 */
export interface IdempotencyStore {
  /**
   * Takes the key if it is unknown, or if it is in progress, its lease has expired and its fingerprint is the same.
   * Otherwise changes nothing and says what is there; the caller compares the fingerprints.
   */
  claim(key: string, request: IdempotencyClaimRequest): Promise<IdempotencyClaim>

  /** Lets the lease end `leaseMs` from now. False, and nothing changed, if the token is stale or the key is done. */
  renew(key: string, token: string, leaseMs: number): Promise<boolean>

  /**
   * Makes the key done, with its result. False, and nothing changed, if the token is stale. True, and nothing changed,
   * if this very token has completed it before: the first answer may have been lost on its way.
   */
  complete(key: string, token: string, result: string): Promise<boolean>

  /** Makes a key in progress unknown again. Changes nothing if the token is stale or the key is done. */
  release(key: string, token: string): Promise<void>

  /** Forgets the key, in whatever state it is. The token of an owner becomes stale. */
  clear(key: string): Promise<void>
}

/** What a key is claimed with. */
export interface IdempotencyClaimRequest {
  /** The hash of the parameters, in 64 hex digits. */
  readonly fingerprint: string
  /** For how long the key is the claimant's, unless it renews. */
  readonly leaseMs: number
}

/** What a claim found. */
export type IdempotencyClaim =
  /** The key is the claimant's now. */
  | { readonly state: 'fresh'; readonly token: string }
  /** Somebody else's. Time left, not a time of day: the clocks of store and claimant may differ. 0 once expired. */
  | { readonly state: 'in_progress'; readonly fingerprint: string; readonly leaseLeftMs: number }
  | IdempotencyDone

/** The work under the key is done, and this is the text of its result. */
export interface IdempotencyDone {
  readonly state: 'done'
  readonly fingerprint: string
  readonly result: string
}
