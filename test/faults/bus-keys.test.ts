import { IdempotencyGuard } from 'redrive/idempotency'
import { openNatsIdempotencyStore } from 'redrive/nats'
import { expect, it } from 'vitest'
import { startNats } from '../services/nats.js'
import { BROKER_MS } from '../services/shared-broker.js'

it('idempotency keys in NATS survive a server that is killed with -9', { timeout: BROKER_MS }, async () => {
  const server = await startNats()
  const store = await openNatsIdempotencyStore(server.url)
  const guard = new IdempotencyGuard({ store })
  let runs = 0
  const charge = () => ({ receipt: ++runs })
  try {
    expect(await guard.run('order: 42', charge)).toEqual({ receipt: 1 })
    const claim = await store.claim('order: 43', { fingerprint: 'f', leaseMs: 60_000 })
    await server.kill()
    await server.start()
    await expect.poll(() => guard.run('order: 42', charge).catch(String), { timeout: 120_000 }).toEqual({ receipt: 1 })
    expect(claim.state === 'fresh' && (await store.complete('order: 43', claim.token, '1'))).toBe(true)
    expect(runs).toBe(1)
  } finally {
    guard.close()
    await store.close()
    await server.close()
  }
})
