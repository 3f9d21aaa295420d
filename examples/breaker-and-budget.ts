/** Two guards that calls share: a circuit breaker spares a service that is down, a budget keeps retries few. */
import assert from 'node:assert/strict'
import { BreakerOpenError, circuitBreaker, RetryExhaustedError, retry, retryBudget } from 'redrive'
import { fakeClock } from 'redrive/testing'

const clock = fakeClock()
let isDown = true
let requests = 0

function charge(): string {
  requests++
  if (isDown) throw Object.assign(new Error('Bad gateway'), { status: 502 })
  return 'paid'
}

// Whoever names it gets the same breaker. It opens when half of at least four calls have failed.
const breaker = circuitBreaker('payments', { minimumCalls: 4, failureRate: 0.5, openFor: '10s' })
const pay = () => retry(charge, { attempts: 1 }, { breaker, clock })

for (let call = 1; call <= 4; call++) await assert.rejects(pay, RetryExhaustedError)
await assert.rejects(pay, BreakerOpenError)
console.log(`Breaker ${breaker.state}: 5 calls, ${requests} requests.`)
assert.equal(requests, 4)

isDown = false
await clock.advance('10s')
assert.equal(await pay(), 'paid')
console.log(`Breaker ${breaker.state}: the first call after 10 s went through.`)
assert.equal(breaker.state, 'closed')

// Without a budget, twenty calls of three attempts each would send sixty requests to a service that is down.
isDown = true
requests = 0
const budget = retryBudget('payments', { ratio: 0.1, minPerSecond: 0, max: 5 })
const reasons = new Map<string, number>()
for (let call = 1; call <= 20; call++) {
  const error = await retry(charge, { attempts: 3, backoff: 'none' }, { budget }).catch((error: unknown) => error)
  assert(error instanceof RetryExhaustedError)
  reasons.set(error.reason, (reasons.get(error.reason) ?? 0) + 1)
}
console.log(`Budget: 20 calls, ${requests} requests.`, Object.fromEntries(reasons))
assert(requests < 30)
