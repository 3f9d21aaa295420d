// As the docs say to use it: the policy is made once.
import { circuitBreaker, policy, retry, retryBudget } from '../../dist/index.js'

export const name = 'redrive'

export function immediate() {
  const withoutDelay = policy({ attempts: 3, backoff: 'none', jitter: 'none' })
  return fn => retry(fn, withoutDelay)
}

export function patient(signal) {
  const hourly = policy({ attempts: 3, backoff: { kind: 'fixed', base: '1h' }, jitter: 'none' })
  if (signal === undefined) return fn => retry(fn, hourly)
  return fn => retry(fn, hourly, { signal })
}

export const keeps = 'keeps a record of every attempt'

export function stack() {
  const bounded = policy({ attempts: 3, timeout: '5s' })
  const seen = { attempt_started: 0, attempt_succeeded: 0 }
  const options = {
    breaker: circuitBreaker('bench'),
    budget: retryBudget('bench'),
    sink: event => {
      seen[event.type]++
    },
  }
  return fn => retry(fn, bounded, options)
}

export const entry = `export { retry } from '../dist/index.js'`
