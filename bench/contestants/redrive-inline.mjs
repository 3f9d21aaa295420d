// With the policy written into the call, so that it is compared with the latest at every call.
import { circuitBreaker, retry, retryBudget } from '../../dist/index.js'

export const name = 'redrive, inline policy'

export function immediate() {
  return fn => retry(fn, { attempts: 3, backoff: 'none', jitter: 'none' })
}

/** The policy of README's first example. */
export function readme() {
  return fn => retry(fn, { attempts: 5, backoff: { base: '10ms' }, timeout: '2s' })
}

export function stack() {
  const seen = { attempt_started: 0, attempt_succeeded: 0 }
  const breaker = circuitBreaker('bench inline')
  const budget = retryBudget('bench inline')
  const sink = event => {
    seen[event.type]++
  }
  return fn => retry(fn, { attempts: 3, timeout: '5s' }, { breaker, budget, sink })
}
