/** Explains a policy before anything has failed: in words, as a table, and as figures to test against. */
import assert from 'node:assert/strict'
import { classify, explain, extendPolicy, PolicyError, policy } from 'redrive/policy'

const gentle = policy({
  attempts: 5,
  timeout: '10s',
  backoff: { kind: 'exponential', base: '500ms', max: '8s' },
  jitter: { kind: 'proportional', ratio: 0.1 },
  giveUpOn: ['InsufficientFunds'],
})

const { words, table, attempts } = explain(gentle)
console.log(words)
console.log(table)
assert.equal(attempts.length, 5)

// A policy is data: it survives JSON, and another can be laid over it.
assert.deepEqual(policy(JSON.parse(JSON.stringify(gentle))), gentle)
const hasty = extendPolicy(gentle, { attempts: 2, backoff: { base: '50ms' } })
console.log(`Laid over it: ${hasty.attempts} attempts, ${JSON.stringify(hasty.backoff)}`)
assert.deepEqual(hasty.backoff, { kind: 'exponential', base: 50, factor: 2, max: 8000 })

// The same question for a failure: what would the policy make of it?
for (const failure of [{ status: 429, headers: { 'Retry-After': '30' } }, { code: 'ECONNRESET' }, { status: 422 }]) {
  console.log(JSON.stringify(failure), '→', JSON.stringify(classify(failure, gentle, Date.now())))
}

// A policy that cannot be is refused when it is made, not when the first call fails.
assert.throws(
  () => policy({ attempts: 0 }),
  (error: unknown) => {
    console.log(String(error))
    return error instanceof PolicyError && error.field === 'attempts'
  },
)
