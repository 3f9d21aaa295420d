/**
 * A web API in front of a service that fails: retries with a timeout, a deadline for each request, a circuit breaker, a retry
 * budget, and metrics for Prometheus. Run it with `npx tsx examples/web-api/main.ts`.
 */
import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { workMetrics } from 'redrive/metrics'
import { startApi } from './api.js'
import { breaker, PriceClient } from './prices.js'
import { startPriceService } from './upstream.js'

const service = await startPriceService()
const sink = await workMetrics({ breakers: [breaker] })
const server = await startApi(new PriceClient(service.url, sink), 0)
const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

/** Asks the API for a price. */
function ask(product: number): Promise<Response> {
  return fetch(`${api}/products/${product}/price`)
}

// Healthy: one request there, one request behind. A product that does not exist is not asked for again.
assert.deepEqual(await (await ask(7)).json(), { product: 7, cents: 700 })
assert.equal((await ask(999)).status, 404)
assert.equal(service.requests, 2)
console.log('Healthy: 200 for a product, 404 for one that does not exist, one request each.')

// Flaky: every second request fails, and no client notices.
service.mood = 'flaky'
for (let product = 1; product <= 4; product++) assert.equal((await ask(product)).status, 200)
console.log('Flaky: 4 requests, 4 × 200, although half of the requests behind them failed.')

// Slow: the timeout ends the first attempt, which gets no answer. The deadline ends the second, which gets half a body, and
// the request with it.
service.mood = 'slow'
const beforeSlow = service.requests
assert.equal((await ask(1)).status, 504)
assert.equal(service.requests, beforeSlow + 2)
console.log('Slow: 504 when the deadline has passed, although the service stalled in the body of its answer.')

// Down: the budget has no retries left, so each request is sent once; then the breaker opens, and the service is left alone.
service.mood = 'down'
const before = service.requests
const answers: Response[] = []
for (let i = 0; i < 50; i++) answers.push(await ask(1))
const sent = service.requests - before
const refused = answers.filter(({ status }) => status === 503)
console.log(`Down: ${sent} of 50 requests were sent, ${refused.length} were refused with a Retry-After.`)
assert.ok(sent < 25)
assert.equal(refused.at(-1)?.headers.get('retry-after'), '1')

// Well again: after a second the breaker lets one request through, and closes.
service.mood = 'healthy'
while ((await ask(1)).status !== 200) await delay(50)
assert.equal(breaker.state, 'closed')
console.log('Healthy again: the breaker is closed.')

const text = await (await fetch(`${api}/metrics`)).text()
for (const line of text.split('\n').filter(line => /^redrive_(calls_given_up|breaker)/.test(line)))
  console.log(' ', line)
for (const reason of ['budget_empty', 'breaker_open', 'deadline_passed']) {
  assert.ok(text.includes(`redrive_calls_given_up_total{kind="call",category="PRICES",reason="${reason}"}`))
}
assert.ok(text.includes('redrive_breaker_state{breaker="prices",state="closed"} 1'))

server.close()
server.closeAllConnections()
service.close()
