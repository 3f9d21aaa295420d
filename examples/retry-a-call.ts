/** Retrying a call: what passes is tried again, what is final is thrown at once, and a call given up says why. */
import assert from 'node:assert/strict'
import { policy, RetryExhaustedError, retry } from 'redrive'

const quick = policy({ attempts: 4, timeout: '2s', backoff: { base: '10ms', max: '100ms' }, jitter: 'none' })

// Fails twice, then succeeds.
const price = await retry(({ attempt }) => (attempt < 3 ? unavailable() : 42), quick)
console.log(`The price is ${price}.`)
assert.equal(price, 42)

// A 404 is final, and the caller gets the error itself.
let calls = 0
const missing = await failureOf(() => {
  calls++
  throw Object.assign(new Error('No such product'), { status: 404 })
})
console.log(`${missing.message}: given up after ${calls} call.`)
assert.equal(calls, 1)

// A call that never succeeds ends in an error that lists every attempt.
const exhausted = await failureOf(unavailable)
assert(exhausted instanceof RetryExhaustedError)
console.log(exhausted.message)
for (const { attempt, verdict, decision } of exhausted.attempts) {
  const next = decision.action === 'give_up' ? decision.reason : `again in ${decision.delayMs} ms`
  console.log(`  ${attempt}. ${verdict.code} (${verdict.class}): ${next}`)
}
assert.equal(exhausted.reason, 'attempts_exhausted')
assert.equal(exhausted.attempts.length, 4)

function unavailable(): never {
  throw Object.assign(new Error('Service unavailable'), { status: 503 })
}

async function failureOf(fn: () => unknown): Promise<Error> {
  return retry(fn, quick, { name: 'load product' }).then(
    () => assert.fail('it should have failed'),
    (error: Error) => error,
  )
}
