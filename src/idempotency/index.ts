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
