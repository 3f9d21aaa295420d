export type { Attempt } from './attempt.js'
export { Bulkhead, BulkheadFullError, type BulkheadOptions, bulkhead } from './bulkhead.js'
export {
  type BreakerChange,
  BreakerOpenError,
  type BreakerState,
  CircuitBreaker,
  type CircuitBreakerOptions,
  circuitBreaker,
} from './circuit-breaker.js'
export { type AttemptRecord, RetryExhaustedError } from './errors.js'
export { type RetryOptions, retry, retrying } from './retry.js'
export { RetryBudget, type RetryBudgetOptions, retryBudget } from './retry-budget.js'
export { HttpError, type RetryFetchInit, retryFetch } from './retry-fetch.js'
export { type ExecuteOptions, RetryManager, type RetryManagerOptions } from './retry-manager.js'
export { UnwantedResultError, until } from './until.js'
