export {
  IdempotencyInProgressError,
  IdempotencyKeyError,
  IdempotencyLeaseLostError,
  IdempotencyMismatchError,
  IdempotencyParamsError,
  IdempotencyResultUnavailableError,
} from './errors.js'
export {
  IdempotencyGuard,
  type IdempotencyGuardOptions,
  type IdempotencyRunOptions,
  type IdempotentFunction,
} from './guard.js'
export { type IdempotencyKeyParts, idempotencyKey } from './idempotency-key.js'
export { MemoryIdempotencyStore, type MemoryIdempotencyStoreOptions } from './memory-store.js'
export type { IdempotencyClaim, IdempotencyClaimRequest, IdempotencyDone, IdempotencyStore } from './store.js'

// Below is what other folders use, and no user needs: it is left out of the declarations.

/** @internal */
export { checkKey, fingerprint } from './idempotency-key.js'
/** @internal */
export { decodeResult, encodeResult } from './result-codec.js'
