import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { OptionError } from '../policy/index.js'
import { takeParameter } from './broker-url.js'
import { natsAddress } from './nats/address.js'
import { openNats, openNatsIdempotencyStore } from './nats/index.js'
import { openRabbitmq } from './rabbitmq/index.js'
import { addressOf } from './rabbitmq/open-rabbitmq.js'

describe.each([
  ['openRabbitmq', 'amqp:', (url: string, monitor?: string) => openRabbitmq(url, { managementUrl: monitor })],
  ['openNats', 'nats:', (url: string, monitor?: string) => openNats(url, { monitorUrl: monitor })],
  ['openNatsIdempotencyStore', 'nats:', (url: string) => openNatsIdempotencyStore(url)],
])('%s', (name, scheme, open) => {
  /** The error, which must be about an option and must not show the password in any of its parts. */
  async function refusal(opening: Promise<unknown>): Promise<string> {
    const error: unknown = await opening.catch((error: unknown) => error)
    expect(error).toBeInstanceOf(OptionError)
    expect(inspect(error, { depth: 9, showHidden: true })).not.toMatch(/hunter/)
    return error instanceof Error ? error.message : ''
  }

  it.each([
    `${scheme}//ada:hunter2/pass@host:5672`,
    `${scheme}//ada:hunter2%@host`,
    `${scheme}//ada:hunter2@host:port`,
    `${scheme}//ada:hunter2@ho st`,
    `${scheme}//ada:hunter2@`,
  ])('refuses %s without repeating it', async url => {
    expect(await refusal(open(url))).toMatch(/is not a valid URL|must name one host/)
  })

  it.each(['http:', 'amqp+ssl:', 'ws:', 'redis:'])('refuses the scheme %s', async other => {
    const message = `'url' must begin with ${scheme}// or ${scheme === 'amqp:' ? 'amqps:' : 'tls:'}//, got '${other}'.`
    expect(await refusal(open(`${other}//ada:hunter2@host`))).toBe(message)
  })

  it.runIf(name !== 'openNatsIdempotencyStore')('refuses a monitoring URL without repeating it', async () => {
    expect(await refusal(open(`${scheme}//host`, 'http://ada:hunter2@host:port'))).toMatch(/Url' is not a valid URL/)
    expect(await refusal(open(`${scheme}//host`, 'localhost:15672'))).toMatch(/Url' must begin with http:\/\/ or https/)
  })
})

it('RabbitMQ is one host: several are refused', async () => {
  await expect(openRabbitmq('amqp://a,amqp://b')).rejects.toThrow(/must name one host/)
})

it.each([
  ['openRabbitmq', openRabbitmq, { exchnge: 'x' }, "Did you mean 'exchange'?"],
  ['openNats', openNats, { prefx: 'x' }, "Did you mean 'prefix'?"],
  ['openNats', openNats, { onTrouble: 'warn' }, "'onTrouble' must be of type function"],
])('%s refuses a wrong option before it connects', async (_, open, options, message) => {
  await expect(open('nobody://nowhere', options as object)).rejects.toThrow(message)
})

describe('the address of a bus has one spelling', () => {
  it.each([
    ['amqp://localhost', 'amqp://localhost'],
    ['amqp://ada:secret@LOCALHOST:5672/', 'amqp://localhost'],
    ['amqp://localhost/%2F', 'amqp://localhost'],
    ['amqp://localhost/%2f?heartbeat=5', 'amqp://localhost'],
    ['amqps://localhost:5671/orders', 'amqps://localhost/orders'],
    ['amqp://localhost:5671/orders', 'amqp://localhost:5671/orders'],
  ])('%s', (url, address) => {
    expect(addressOf(new URL(url), 'redrive')).toBe(address)
    expect(addressOf(new URL(url), 'billing')).toBe(`${address}?exchange=billing`)
  })

  it.each([
    ['nats://localhost', 'localhost'],
    ['LOCALHOST:4222', 'localhost'],
    ['nats://two:4223,tls://token@one,one:4222', 'one,two:4223'],
  ])('%s', (url, cluster) => {
    expect(natsAddress(url).cluster).toBe(cluster)
  })
})

describe('takeParameter', () => {
  it.each([
    ['amqp://h/v?exchange=x&heartbeat=5', 'amqp://h/v?heartbeat=5', 'x'],
    ['nats://a:1,nats://b:2?exchange=x', 'nats://a:1,nats://b:2', 'x'],
    ['nats://a:1?exchange=x,nats://b:2', 'nats://a:1,nats://b:2', 'x'],
    ['amqp://h', 'amqp://h', undefined],
  ])('of %s leaves %s, and takes %s', (text, url, value) => {
    expect(takeParameter(text, 'exchange', ['heartbeat'])).toEqual({ url, value })
  })

  it('refuses a parameter that nobody knows, and repeats no password', () => {
    expect(() => takeParameter('amqp://h?exchnge=x', 'exchange')).toThrow("a parameter 'exchnge' that is not known")
    expect(() => takeParameter('amqp://ada:sec?ret@h', 'exchange')).toThrow(/parameter that is not known(?!.*ret@)/)
  })
})
