export {
  IdempotencyInProgressError,
  IdempotencyKeyError,
  IdempotencyLeaseLostError,
  IdempotencyMismatchError,
  IdempotencyParamsError,
  IdempotencyResultUnavailableError,
} from './errors.js'
export { IdempotencyGuard } from './guard.js'
export { idempotencyKey } from './idempotency-key.js'
export { MemoryIdempotencyStore } from './memory-store.js'
export type { IdempotencyClaim, IdempotencyClaimRequest, IdempotencyStore } from './store.js'
