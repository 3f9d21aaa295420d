import {
  ConstantBackoff,
  circuitBreaker,
  handleAll,
  retry,
  SamplingBreaker,
  TimeoutStrategy,
  timeout,
  wrap,
} from 'cockatiel'
import { HOUR_MS } from './hour.mjs'

export const name = 'cockatiel'

export function immediate() {
  const policy = retry(handleAll, { maxAttempts: 2, backoff: new ConstantBackoff(0) })
  return fn => policy.execute(fn)
}

/** Sees the signal only between attempts: an abort does not end the wait. */
export function patient(signal) {
  const policy = retry(handleAll, { maxAttempts: 2, backoff: new ConstantBackoff(HOUR_MS) })
  return fn => policy.execute(fn, signal)
}

export const keeps = 'keeps nothing'

export const signalNote = 'an abort does not end its wait'

export function stack() {
  const seen = { success: 0, failure: 0 }
  const retries = retry(handleAll, { maxAttempts: 2 })
  const breaker = circuitBreaker(handleAll, {
    halfOpenAfter: 30_000,
    breaker: new SamplingBreaker({ threshold: 0.5, duration: 30_000 }),
  })
  const policy = wrap(retries, breaker, timeout(5000, TimeoutStrategy.Aggressive))
  retries.onSuccess(() => seen.success++)
  retries.onFailure(() => seen.failure++)
  return fn => policy.execute(fn)
}

export const stackNote = 'no budget'

export const entry = `
  import { ExponentialBackoff, handleAll, retry } from 'cockatiel'
  export const policy = retry(handleAll, { maxAttempts: 2, backoff: new ExponentialBackoff() })`
