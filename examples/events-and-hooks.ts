/** A call emits one stream of work events. A sink receives them; `on` makes a sink with a hook for each type. */
import assert from 'node:assert/strict'
import { retry } from 'redrive'
import { fanOut, on, sinkFailures, type WorkEvent } from 'redrive/telemetry'
import { fakeClock } from 'redrive/testing'

const clock = fakeClock()
const events: WorkEvent[] = []

const hooks = on({
  attempt_started: ({ work, attempt }) => console.log(`${work.name}: attempt ${attempt}`),
  timed_out: ({ timeoutMs }) => console.log(`  no answer within ${timeoutMs} ms`),
  attempt_succeeded: ({ attempt, durationMs }) => console.log(`  succeeded at attempt ${attempt}, in ${durationMs} ms`),
  gave_up: ({ reason, verdict }) => console.log(`  gave up: ${reason} (${verdict.code})`),
})

// A sink is a function, and several can be made one. One that is broken harms neither the others nor the call:
// it is warned of once, and its failures are counted.
const broken = () => {
  throw new Error('The log server is down')
}
const sink = fanOut(event => void events.push(event), hooks, broken)

const answers = [{ status: 503 }, 'silence', 'hello']
const greet = async () => {
  const answer = answers.shift()
  if (answer === 'silence') return new Promise<never>(() => {})
  if (typeof answer !== 'string') throw answer
  return answer
}
const call = retry(greet, { attempts: 3, timeout: '2s' }, { name: 'greet', tenantId: 'acme', sink, clock })
await clock.runAll()
assert.equal(await call, 'hello')

// Every event names its work, so that they can be told apart, counted and traced.
const types = events.map(({ type }) => type)
console.log(types.join(', '))
assert(events.every(({ work }) => work.kind === 'call' && work.tenantId === 'acme'))
assert.deepEqual(types.slice(0, 2), ['attempt_started', 'retry_scheduled'])
console.log(`Events that the broken sink missed: ${sinkFailures(broken)} of ${events.length}.`)
assert.equal(sinkFailures(broken), events.length)
