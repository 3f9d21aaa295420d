import amqplib, { type ChannelModel } from 'amqplib'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { BrokerUrls } from '../../../test/services/broker.js'
import { longText, nestedTable, publishToRabbitmq, tableEntry } from '../../../test/services/odd-messages.js'
import { startProxy } from '../../../test/services/proxy.js'
import { BROKER_MS, sharedBroker, unique } from '../../../test/services/shared-broker.js'
import { collect } from '../../testing/bus-conformance/harness.js'
import { RabbitmqConnection } from './connection.js'
import { openRabbitmq, type RabbitmqBus } from './index.js'
import { queueOptions } from './topology.js'

let broker: BrokerUrls
let bus: RabbitmqBus
let raw: ChannelModel
beforeAll(async () => {
  broker = await sharedBroker('rabbitmq')
  bus = await openRabbitmq(broker.url, { exchange: 'traps' })
  raw = await amqplib.connect(broker.url)
}, BROKER_MS)
afterAll(async () => {
  await bus.close()
  await raw.close()
})

const isBefore4 = () => Number.parseInt(raw.connection.serverProperties.version, 10) < 4

describe('the delivery limit of a quorum queue', () => {
  it('is switched off from 4.0 on, where it is 20 by default, and left out before', () => {
    expect(queueOptions('work', '3.10.8').arguments).toEqual({ 'x-queue-type': 'quorum' })
    expect(queueOptions('work', '4.0.1').arguments).toEqual({ 'x-queue-type': 'quorum', 'x-delivery-limit': -1 })
    expect(queueOptions('work', '10.1.0').arguments).toHaveProperty('x-delivery-limit', -1)
  })

  it('would, before 4.0, drop a message at its first redelivery if it were switched off', async ({ skip }) => {
    if (!isBefore4()) skip('This server is newer.')
    const channel = await raw.createConfirmChannel()
    const { queue } = await channel.assertQueue(unique('limited'), queueOptions('limited', '4.0.0'))
    channel.sendToQueue(queue, Buffer.from('gone'))
    await channel.waitForConfirms()
    const get = async () => (await channel.get(queue)) || Promise.reject(new Error('Not yet'))
    const message = await vi.waitFor(get, { timeout: 10_000 })
    channel.nack(message, false, true)
    await channel.checkQueue(queue)
    expect(await channel.get(queue)).toBe(false)
    await channel.close()
  })
})

describe('a failed queue', () => {
  it('is classic, since looking at a quorum queue changes its order', async () => {
    expect(queueOptions('work.failed', '3.10.8').arguments).toEqual({ 'x-queue-type': 'classic' })
    expect(queueOptions('work.failed', '4.1.0').arguments).toEqual({ 'x-queue-type': 'classic' })

    const channel = await raw.createConfirmChannel()
    const name = `${unique('look')}.failed`
    await channel.assertQueue(name, queueOptions(name, raw.connection.serverProperties.version))
    for (const body of ['1', '2', '3']) channel.sendToQueue(name, Buffer.from(body))
    await channel.waitForConfirms()
    const look = async () => {
      const messages = [await channel.get(name), await channel.get(name), await channel.get(name)]
      for (const message of messages) if (message !== false) channel.nack(message, false, true)
      return messages.map(message => message !== false && message.content.toString())
    }
    await look()
    expect(await look()).toEqual(['1', '2', '3'])
    await channel.close()
  })
})

describe('what somebody else has published', () => {
  it('is delivered, with what can be told of it', async () => {
    const queue = unique('foreign')
    await bus.declare({ [queue]: queue })
    const channel = await raw.createConfirmChannel()
    const values = { text: 'a', number: 7, yes: true, list: [1], nested: { a: 1 }, bytes: Buffer.from('b'), none: null }
    const headers = { ...values, 'x-internal': 'b' }
    channel.publish('traps', queue, Buffer.from('hello'), { headers, type: 'SomeClass' })
    await channel.waitForConfirms()
    await channel.close()

    const { deliveries, reach, stop } = await collect(bus, queue)
    await reach(1)
    await stop()
    expect(deliveries[0]).toMatchObject({ id: undefined, type: queue })
    const plain = { text: 'a', number: '7', yes: 'true', none: 'null' }
    expect(deliveries[0]?.headers).toEqual({ ...plain, list: '[1]', nested: '{"a":1}', bytes: '"Yg=="' })
  })

  it('is delivered if the client cannot read its headers, with them as they came, and so are the others', async () => {
    const queue = unique('odd')
    await bus.declare({ [queue]: queue })
    const tooDeep = nestedTable(8000)
    const tables = [
      tooDeep,
      tableEntry('k', 'S', longText(Buffer.of(0xff))),
      tableEntry('__proto__', 'F', longText(Buffer.of())),
    ]
    for (const table of tables) {
      await publishToRabbitmq(broker.url, 'traps', queue, table, 'odd')
      await bus.publish({ id: 'good', type: queue, body: 'good' })
    }
    const { deliveries, reach, stop } = await collect(bus, queue)
    await reach(2 * tables.length)
    await stop()
    expect(deliveries.map(({ id, body }) => `${id} ${Buffer.from(body)}`)).toEqual(
      tables.flatMap(() => ['odd odd', 'good good']),
    )
    const { raw = '', encoding = 'utf8', reason } = deliveries[0]?.unreadable ?? {}
    expect(Buffer.from(raw, encoding).equals(tooDeep)).toBe(true)
    expect(reason).toContain('call stack')
    expect(deliveries.slice(1).filter(({ unreadable }) => unreadable)).toEqual([])
  })
})

describe('a content type', () => {
  it('is a property of the message, and a header on both sides of the bus', async () => {
    const queue = unique('typed')
    await bus.declare({ [queue]: queue })
    const headers = { 'content-type': 'application/json', a: '1' }
    await bus.publish({ id: '1', type: queue, body: '{}', headers })
    const channel = await raw.createChannel()
    const get = async () => (await channel.get(queue)) || Promise.reject(new Error('Not yet'))
    const message = await vi.waitFor(get, { timeout: 10_000 })
    expect(message.properties).toMatchObject({ contentType: 'application/json', headers: { a: '1' } })
    channel.nack(message, false, true)
    await channel.close()
    const { deliveries, reach, stop } = await collect(bus, queue)
    await reach(1)
    await stop()
    expect(deliveries[0]?.headers).toEqual(headers)
  })
})

describe('a consumer', () => {
  it('goes on by itself when its queue was deleted and is declared again', { timeout: 20_000 }, async () => {
    const queue = unique('deleted')
    const troubles: Error[] = []
    const own = await openRabbitmq(broker.url, { exchange: 'traps', onTrouble: trouble => troubles.push(trouble) })
    await own.declare({ [queue]: queue })
    let count = 0
    await own.consume(queue, delivery => {
      count++
      delivery.ack()
    })
    const channel = await raw.createChannel()
    await channel.deleteQueue(queue)
    await vi.waitUntil(() => troubles.some(({ name }) => name === 'NoQueueError'), { timeout: 10_000 })
    // The connection may be a new one by now, or not there yet.
    await vi.waitFor(() => own.declare({ [queue]: queue }), { timeout: 10_000 })
    await own.publish({ id: '1', type: queue, body: '' })
    await vi.waitUntil(() => count === 1, { timeout: 10_000 })
    await channel.close()
    await own.close()
  })
})

describe('declaring', () => {
  it('refuses a queue that is there and is of another kind, and leaves it as it is', async () => {
    const queue = unique('classic')
    const channel = await raw.createChannel()
    await channel.assertQueue(queue, { durable: true })
    await expect(bus.declare({ [queue]: queue })).rejects.toMatchObject({
      name: 'TopologyError',
      code: 'topology_mismatch',
      message: expect.stringContaining('x-queue-type'),
    })
    expect((await channel.checkQueue(queue)).queue).toBe(queue)
    await channel.close()
  })

  it('refuses an exchange that is there and is of another kind', async () => {
    const exchange = unique('fanout')
    const channel = await raw.createChannel()
    await channel.assertExchange(exchange, 'fanout')
    const other = await openRabbitmq(broker.url, { exchange })
    await expect(other.declare({ work: 'a' })).rejects.toMatchObject({ code: 'topology_mismatch' })
    await other.close()
    await channel.close()
  })
})

describe('a channel', () => {
  /** The broker's `channel.close-ok`: class 20, method 41. */
  const CLOSE_OK = '\0\x14\0)'

  it('whose connection is lost while it is being closed holds nobody up', async () => {
    const queue = unique('cut')
    await bus.declare({ [queue]: queue })
    const proxy = await startProxy(broker.url)
    const connection = await RabbitmqConnection.open(new URL(proxy.through(broker.url)), () => {})
    const cut = proxy.cutBeforeAnswer(CLOSE_OK)
    // Ask one question only: another one in flight would lose its answer with the connection.
    const { messageCount } = await connection.ask(10_000, channel => channel.checkQueue(queue))
    await cut
    expect(messageCount).toBe(0)
    await connection.close()
    await proxy.close()
  })

  it('that comes after nobody waits for it any more is closed', async () => {
    const proxy = await startProxy(broker.url)
    const connection = await RabbitmqConnection.open(new URL(proxy.through(broker.url)), () => {})
    proxy.blackHole()
    proxy.cut()
    for (let i = 0; i < 5; i++) await expect(connection.channel(50)).rejects.toMatchObject({ code: 'bus_unavailable' })
    proxy.repair()
    // Channels get the lowest free number.
    const numberOfNext = async () => {
      const channel = await connection.channel()
      await channel.close()
      return Reflect.get(channel, 'ch')
    }
    await vi.waitUntil(async () => (await numberOfNext()) === 1, { timeout: 20_000 })
    await connection.close()
    await proxy.close()
  })
})

describe('closing', () => {
  it('refuses a consumer that was about to start', async () => {
    const queue = unique('closing')
    await bus.declare({ [queue]: queue })
    const own = await openRabbitmq(broker.url, { exchange: 'traps' })
    const consuming = own.consume(queue, () => {})
    await Promise.all([own.close(), expect(consuming).rejects.toMatchObject({ code: 'bus_closed' })])
  })

  it('does not wait for a network that swallows everything, nor does a consumer that stops', async () => {
    const queue = unique('hole')
    await bus.declare({ [queue]: queue })
    const proxy = await startProxy(broker.url)
    const own = await openRabbitmq(proxy.through(broker.url), { exchange: 'traps' })
    const consumer = await own.consume(queue, () => {})
    proxy.blackHole()
    // Nothing ever answers here, so anything that waits for an answer hangs until the test times out.
    await Promise.all([consumer.stop(), own.close()])
    await proxy.close()
  })
})

describe('opening', () => {
  it('says where there is no broker, and tells no password', async () => {
    const error: unknown = await openRabbitmq('amqp://me:secret@127.0.0.1:1').catch(error => error)
    expect(error).toMatchObject({
      code: 'bus_unavailable',
      message: expect.stringContaining('RabbitMQ at 127.0.0.1:1'),
    })
    expect(String(error)).not.toContain('secret')
  })

  it.each([
    [
      'a wrong password',
      (url: URL) => (url.password = 'wr0ng'),
      'refuses this user (ACCESS_REFUSED - Login was refused',
    ],
    [
      'a virtual host that is not there',
      (url: URL) => (url.pathname = '/nope'),
      "refuses this user (The virtual host '/nope' does not exist",
    ],
  ])('tells %s apart from a broker that is down', async (_, change, text) => {
    const url = new URL(broker.url)
    change(url)
    const error: unknown = await openRabbitmq(url.href).catch(error => error)
    expect(error).toMatchObject({ code: 'bus_forbidden', message: expect.stringContaining(text) })
    expect(String(error)).not.toContain('wr0ng')
  })

  it('refuses a timeout that is none', async () => {
    await expect(openRabbitmq(broker.url, { timeout: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})
