import { setTimeout as sleep } from 'node:timers/promises'
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { BrokerUrls } from '../../../test/services/broker.js'
import { startNats } from '../../../test/services/nats.js'
import { publishToNats } from '../../../test/services/odd-messages.js'
import { BROKER_MS, sharedBroker, unique } from '../../../test/services/shared-broker.js'
import { bodies, browseAll, collect, event } from '../../testing/bus-conformance/harness.js'
import { type NatsBus, openNats } from './index.js'

let broker: BrokerUrls
let bus: NatsBus
let raw: NatsConnection
let manager: JetStreamManager
beforeAll(async () => {
  broker = await sharedBroker('nats')
  bus = await openNats(broker.url, { prefix: 'traps', ackWait: '1s', monitorUrl: broker.httpUrl })
  raw = await connect({ servers: broker.url })
  manager = await jetstreamManager(raw)
}, BROKER_MS)
afterAll(async () => {
  await bus.close()
  await raw.close()
})

describe('closing', () => {
  it('refuses a consumer that was about to start, and leaves none behind', async () => {
    const queue = unique('closing')
    await bus.declare({ [queue]: queue })
    const own = await openNats(broker.url, { prefix: 'traps' })
    const consuming = own.consume(queue, () => {})
    const publishing = own.publish(event(queue))
    await Promise.all([own.close(), publishing, expect(consuming).rejects.toMatchObject({ code: 'bus_closed' })])
  })
})

describe('a failed queue', () => {
  it('keeps messages of one identity once, and others with the same id as they come', async () => {
    const queue = unique('once')
    await bus.declare({ [queue]: queue })
    const put = (body: string, identity?: string) =>
      bus.put(`${queue}.failed`, { id: '1', type: queue, body }, { identity })
    await put('first', 'same')
    await put('second', 'same')
    await put('third', 'other')
    await put('fourth')
    await put('fifth')
    const found: string[] = []
    for await (const { body } of bus.browse(`${queue}.failed`)) found.push(Buffer.from(body).toString())
    expect(found).toEqual(['first', 'third', 'fourth', 'fifth'])
  })
})

describe('a delivery', () => {
  it('that takes longer than the server waits for an acknowledgement is not delivered again', {
    timeout: 20_000,
  }, async () => {
    const queue = unique('slow')
    await bus.declare({ [queue]: queue })
    await bus.publish(event(queue))
    let deliveries = 0
    const consumer = await bus.consume(queue, async delivery => {
      deliveries++
      await sleep(3000)
      delivery.ack()
    })
    await sleep(3500)
    await consumer.stop()
    expect(deliveries).toBe(1)
  })

  it('that was not settled when its bus was closed comes again at once', { timeout: 20_000 }, async () => {
    const queue = unique('closed')
    const first = await openNats(broker.url, { prefix: 'traps', ackWait: '1h' })
    await first.declare({ [queue]: queue })
    await first.publish(event(queue))
    let held = 0
    await first.consume(queue, () => void held++)
    await vi.waitUntil(() => held === 1, { timeout: 10_000 })
    await first.close()
    const { deliveries, reach, stop } = await collect(bus, queue)
    await reach(1)
    await stop()
    expect(deliveries[0]?.isRedelivered).toBe(true)
  })

  it('may be one of more than the thousand that a server allows by default', { timeout: 30_000 }, async () => {
    const queue = unique('many')
    await bus.declare({ [queue]: queue })
    await Promise.all(Array.from({ length: 1500 }, () => bus.publish(event(queue))))
    const { deliveries, reach, stop } = await collect(bus, queue, { prefetch: 2000, onDelivery: () => {} })
    await reach(1500)
    for (const delivery of deliveries) delivery.ack()
    await stop()
  })

  it('of a message that somebody else has published has what can be told of it', async () => {
    const queue = unique('foreign')
    await bus.declare({ [queue]: queue })
    await raw.request(`traps.${queue}`, 'hello', { timeout: 10_000 })
    const ownHeaders = headers()
    ownHeaders.set('Nats-Msg-Id', 'theirs')
    ownHeaders.set('trace', '1')
    ownHeaders.append('twice', 'a')
    ownHeaders.append('twice', 'b')
    await raw.request(`traps.${queue}`, 'hello again', { timeout: 10_000, headers: ownHeaders })
    const { deliveries, reach, stop } = await collect(bus, queue)
    await reach(2)
    await stop()
    expect(deliveries[0]).toMatchObject({ id: undefined, type: queue, headers: {} })
    expect(deliveries[1]).toMatchObject({ id: 'theirs', type: queue, headers: { trace: '1', twice: 'a, b' } })
  })
})

describe('headers that the client refuses to read', () => {
  const ODD = ['a b: 1', 'a\tb: 1', 'é: 1', '\x7f: 1', 'a: two\nlines', 'a: one\rline'].map(odd =>
    Buffer.from(`trace: 7\r\n${odd}`),
  )
  const NOT_TEXT = Buffer.concat([Buffer.from('trace: 7\r\n'), Buffer.of(0xff), Buffer.from(': 1')])

  it('do not keep a consumer from its other messages, and come as they were sent', async () => {
    const queue = unique('odd')
    await bus.declare({ [queue]: queue })
    const odd = [...ODD, NOT_TEXT]
    for (const headers of odd) {
      await publishToNats(broker.url, `traps.${queue}`, headers, 'odd')
      await bus.publish(event(queue, 'good'))
    }
    const { deliveries, reach, stop } = await collect(bus, queue)
    await reach(2 * odd.length)
    await stop()
    expect(bodies(deliveries)).toEqual(odd.flatMap(() => ['odd', 'good']))
    const unreadable = deliveries.filter(({ body }) => Buffer.from(body).toString() === 'odd')
    for (const { headers } of unreadable) expect(headers).toEqual({ trace: '7' })
    const raw = unreadable.map(({ unreadable }) => Buffer.from(unreadable?.raw ?? '', unreadable?.encoding ?? 'utf8'))
    expect(raw.map(String)).toEqual(odd.map(headers => `NATS/1.0\r\n${headers}\r\n\r\n`))
    expect(unreadable[0]?.unreadable?.reason).toContain("' ' is not a valid character in a header name")
  })

  it('are found in a failed queue, between the others', async () => {
    const queue = unique('odd')
    await bus.declare({ [queue]: queue })
    await publishToNats(broker.url, `traps-failed.${queue}`, 'trace: 7\r\na b: 1', 'odd')
    await bus.put(`${queue}.failed`, event(queue, 'good'))
    const found = await browseAll(bus, `${queue}.failed`)
    expect(bodies(found)).toEqual(['odd', 'good'])
    const [odd] = found
    expect(odd).toMatchObject({ headers: { trace: '7' }, unreadable: { raw: expect.stringContaining('\r\na b: 1') } })
    await odd?.remove()
    expect(bodies(await browseAll(bus, `${queue}.failed`))).toEqual(['good'])
  })
})

describe('a stream without a queue', () => {
  it('would confirm and drop: so it takes nothing before its first queue is there', async () => {
    const queue = unique('half')
    await bus.declare({ [queue]: queue })
    const name = `traps+${queue}`
    const { config } = await manager.streams.info(name)
    // The state between the two steps of a declaration.
    await manager.consumers.delete(name, queue)
    await manager.streams.update(name, { ...config, subjects: [`traps-closed.${queue}`] })
    await expect(bus.publish(event(queue))).rejects.toMatchObject({ code: 'bus_unavailable' })
    await bus.declare({ [queue]: queue })
    await bus.publish(event(queue, 'kept'))
    const { deliveries, reach, stop } = await collect(bus, queue)
    await reach(1)
    await stop()
    expect(bodies(deliveries)).toEqual(['kept'])
  })

  it('is found by an examination', async () => {
    const queue = unique('orphan')
    await bus.declare({ [queue]: queue })
    await manager.consumers.delete(`traps+${queue}`, queue)
    expect((await bus.examine({ [queue]: queue })).map(({ code, subject }) => [code, subject])).toContainEqual([
      'missing',
      queue,
    ])
  })
})

describe('an examination', () => {
  it('finds what can lose a message', async () => {
    const queue = unique('limited')
    await bus.declare({ [queue]: queue })
    const name = `traps+${queue}`
    const { config } = await manager.streams.info(name)
    await manager.streams.update(name, { ...config, max_age: 3_600e9, max_msgs: 5, discard: 'old' })
    await manager.consumers.update(name, queue, { max_deliver: 3 })
    const failed = await manager.streams.info(`traps-failed+${queue}`)
    await manager.streams.update(failed.config.name, { ...failed.config, max_bytes: 1000 })
    const findings = await bus.examine({ [queue]: queue })
    expect(findings.map(({ code, severity, subject }) => `${severity} ${code} ${subject}`)).toEqual([
      `error expiry ${queue}`,
      `error length_limit ${queue}`,
      `error delivery_limit ${queue}`,
      `warning length_limit ${queue}.failed`,
      'warning sync_interval the server',
    ])
    const [sync] = findings.slice(-1)
    if (broker.httpUrl !== undefined) expect(sync?.message).toContain('every 120 s')
  })

  it('finds what is in memory alone, which declaring refuses', async () => {
    const queue = unique('memory')
    await manager.streams.add({
      name: `traps+${queue}`,
      subjects: [`traps.${queue}`],
      storage: 'memory',
      retention: 'interest',
    })
    expect((await bus.examine({ [queue]: queue })).map(({ code }) => code)).toContain('memory_only')
    await expect(bus.declare({ [queue]: queue })).rejects.toMatchObject({ code: 'topology_mismatch' })
  })
})

describe('opening', () => {
  it('says where there is no broker, and tells no password', async () => {
    const error: unknown = await openNats('nats://me:secret@127.0.0.1:1').catch(error => error)
    expect(error).toMatchObject({ code: 'bus_unavailable', message: expect.stringContaining('NATS at 127.0.0.1:1') })
    expect(String(error)).not.toContain('secret')
  })

  it('takes from the url who connects, and one of several servers', { timeout: 30_000 }, async () => {
    const server = await startNats(['--user', 'me', '--pass', 'p@ss'])
    try {
      const { host } = new URL(server.url)
      const bus = await openNats(`nats://me:p%40ss@${host},nats://127.0.0.1:1`)
      await bus.declare({ work: 'a' })
      await bus.close()
      const error: unknown = await openNats(`nats://me:wrong@${host}`).catch(error => error)
      expect(error).toMatchObject({ code: 'bus_forbidden', cause: { name: 'AuthorizationError' } })
      expect(String(error)).toContain('refuses this user (Authorization Violation)')
      expect(String(error)).not.toContain('wrong')
    } finally {
      await server.close()
    }
  })

  it('refuses options that cannot be', async () => {
    await expect(openNats(broker.url, { prefix: 'a.b' })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(openNats(broker.url, { ackWait: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})
