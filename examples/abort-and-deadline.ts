/** Two ways to end a call early: the caller aborts it, or its time is up. A fake clock stands in for the waiting. */
import assert from 'node:assert/strict'
import { RetryExhaustedError, retry } from 'redrive'
import { fakeClock } from 'redrive/testing'

const clock = fakeClock()
const patient = { attempts: 10, backoff: { base: '1m', max: '1h' }, jitter: 'none' } as const

// An abort ends the call wherever it is, here in the middle of a delay, with the reason that the caller gave.
const controller = new AbortController()
const aborted = endOf(retry(refuse, patient, { signal: controller.signal, clock }))
await clock.advance('30s')
controller.abort(new Error('The user closed the page'))
const reason = await aborted
console.log(`Aborted: ${reason.message}.`)
assert.equal(reason, controller.signal.reason)

// A deadline covers the attempts and the delays together. A delay that would end after it is not waited for.
const startedAt = clock.now()
const late = endOf(retry(refuse, patient, { deadline: '5m', clock }))
await clock.runAll()
const error = await late
assert(error instanceof RetryExhaustedError)
const minutes = (clock.now() - startedAt) / 60_000
console.log(`Out of time: ${error.attempts.length} attempts in ${minutes} minutes (${error.reason}).`)
assert.equal(error.attempts.length, 3)

// The signal goes to each attempt, so that its work stops too: here, when the attempt's own time is up.
let stopped = 0
const hanging = ({ signal }: { signal: AbortSignal }) =>
  new Promise<never>(() => signal.addEventListener('abort', () => stopped++))
const hung = endOf(retry(hanging, { attempts: 2, timeout: '5s' }, { name: 'export', clock }))
await clock.runAll()
console.log(`${(await hung).message} Attempts told to stop: ${stopped}.`)
assert.equal(stopped, 2)

function refuse(): never {
  throw Object.assign(new Error('Connection refused'), { code: 'ECONNREFUSED' })
}

/** Returns the error that a call fails with. Call it before time passes, so that no rejection goes unhandled. */
function endOf(call: Promise<unknown>): Promise<Error> {
  return call.then(
    () => assert.fail('it should have failed'),
    (error: Error) => error,
  )
}
