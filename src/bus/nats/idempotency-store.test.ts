import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { beforeAll, describe, expect, it } from 'vitest'
import type { BrokerUrls } from '../../../test/services/broker.js'
import { publishToNats } from '../../../test/services/odd-messages.js'
import { BROKER_MS, sharedBroker } from '../../../test/services/shared-broker.js'
import { idempotencyStoreConformance } from '../../testing/index.js'
import { openNatsIdempotencyStore } from './index.js'

let broker: BrokerUrls
beforeAll(async () => {
  broker = await sharedBroker('nats')
}, BROKER_MS)

const request = { fingerprint: 'f', leaseMs: 60_000 }
const freshBucket = () => `keys-${crypto.randomUUID()}`

describe('idempotency keys in NATS keep the contract', () => {
  for (const { name, run } of idempotencyStoreConformance(async () => {
    const store = await openNatsIdempotencyStore(broker.url, { bucket: 'conformance' })
    return { store, pass: ms => sleep(ms), close: () => store.close() }
  }))
    it(name, { timeout: 20_000 }, run)
})

describe('idempotency keys in NATS', () => {
  it('are there for whoever comes later, with another connection', async () => {
    const bucket = freshBucket()
    const first = await openNatsIdempotencyStore(broker.url, { bucket })
    const claim = await first.claim('order: 42', request)
    if (claim.state === 'fresh') await first.complete('order: 42', claim.token, '"done"')
    await first.close()
    const second = await openNatsIdempotencyStore(broker.url, { bucket })
    expect(await second.claim('order: 42', request)).toEqual({ state: 'done', fingerprint: 'f', result: '"done"' })
    await second.close()
  })

  it('are claimed by one of many processes', async () => {
    const bucket = freshBucket()
    const stores = await Promise.all(Array.from({ length: 5 }, () => openNatsIdempotencyStore(broker.url, { bucket })))
    const claims = await Promise.all(stores.map(store => store.claim('k', request)))
    expect(claims.filter(({ state }) => state === 'fresh')).toHaveLength(1)
    await Promise.all(stores.map(store => store.close()))
  })

  it('are forgotten once they have been kept for long enough, and not while they are in progress', async () => {
    const store = await openNatsIdempotencyStore(broker.url, { bucket: freshBucket(), keepFor: 2000 })
    const done = await store.claim('done', request)
    if (done.state === 'fresh') await store.complete('done', done.token, '1')
    await store.claim('in progress', request)
    expect(await store.claim('done', request)).toMatchObject({ state: 'done' })
    expect(await store.sweep()).toBe(0)
    await sleep(2050)
    expect(await store.claim('done', request)).toMatchObject({ state: 'fresh' })
    expect(await store.claim('in progress', request)).toMatchObject({ state: 'in_progress' })
    await store.close()
  })

  it('leave nothing behind when they are swept, released or cleared', async () => {
    const bucket = freshBucket()
    const store = await openNatsIdempotencyStore(broker.url, { bucket, keepFor: 1 })
    for (const key of ['a', 'b', 'c']) {
      const claim = await store.claim(key, request)
      if (claim.state === 'fresh' && key !== 'c') await store.complete(key, claim.token, '1')
      if (claim.state === 'fresh' && key === 'c') await store.release(key, claim.token)
    }
    await sleep(5)
    expect(await store.sweep()).toBe(2)
    await store.claim('d', request)
    await store.clear('d')
    const client = await connect({ servers: broker.url })
    const status = await (await new Kvm(client).open(bucket)).status()
    expect(status.values).toBe(0)
    await client.close()
    await store.close()
  })

  it('are fresh again when a tool of NATS has deleted them', async () => {
    const bucket = freshBucket()
    const store = await openNatsIdempotencyStore(broker.url, { bucket })
    await store.claim('k', request)
    const client = await connect({ servers: broker.url })
    const kv = await new Kvm(client).open(bucket)
    for await (const key of await kv.keys()) await kv.delete(key)
    expect(await store.claim('k', request)).toMatchObject({ state: 'fresh' })
    await client.close()
    await store.close()
  })

  it.each([
    ['headers that the client cannot read', 'a b: 1', '{"token":1}'],
    ['a body that is not JSON', 'a: 1', '{'],
    ['a body that is null', 'a: 1', 'null'],
    ['a value of another form', 'a: 1', '{"fingerprint":"f","token":"t","leaseMs":"soon"}'],
    ['no body', 'a b: 1', ''],
  ])('are refused if another program wrote an entry with %s, until they are cleared', async (_, headers, body) => {
    const bucket = freshBucket()
    const store = await openNatsIdempotencyStore(broker.url, { bucket, keepFor: 1 })
    const done = await store.claim('done', request)
    if (done.state === 'fresh') await store.complete('done', done.token, '1')
    const name = createHash('sha256').update('k').digest('hex')
    await publishToNats(broker.url, `$KV.${bucket}.${name}`, headers, body)
    await expect(store.claim('k', request)).rejects.toMatchObject({
      code: 'idempotency_entry_invalid',
      message: expect.stringContaining("The idempotency key 'k' was not run"),
    })
    expect(await store.renew('k', 't', 1000)).toBe(false)
    expect(await store.complete('k', 't', '1')).toBe(false)
    await store.release('k', 't')
    await sleep(5)
    expect(await store.sweep()).toBe(1)
    await store.clear('k')
    expect(await store.claim('k', request)).toMatchObject({ state: 'fresh' })
    await store.close()
  })

  it('refuse a keepFor that is none', async () => {
    await expect(openNatsIdempotencyStore(broker.url, { keepFor: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})
