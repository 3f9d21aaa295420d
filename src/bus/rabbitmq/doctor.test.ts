import amqplib from 'amqplib'
import { beforeAll, expect, it, vi } from 'vitest'
import type { BrokerUrls } from '../../../test/services/broker.js'
import { BROKER_MS, sharedBroker, unique } from '../../../test/services/shared-broker.js'
import { openRabbitmq, type RabbitmqOptions } from './index.js'
import { queueOptions } from './topology.js'

let broker: BrokerUrls
beforeAll(async () => {
  broker = await sharedBroker('rabbitmq')
}, BROKER_MS)

async function examine(queue: string, options: RabbitmqOptions = {}): Promise<string[]> {
  const bus = await openRabbitmq(broker.url, options)
  const findings = await bus.examine({ [queue]: queue })
  await bus.close()
  return findings.map(({ code, severity, subject }) => `${severity} ${code} ${subject}`)
}

async function declareRaw(queue: string, more: Record<string, unknown>): Promise<void> {
  const connection = await amqplib.connect(broker.url)
  const channel = await connection.createChannel()
  for (const name of [queue, `${queue}.failed`]) {
    const options = queueOptions(name, connection.connection.serverProperties.version)
    await channel.assertQueue(name, { ...options, arguments: { ...options.arguments, ...more } })
  }
  await connection.close()
}

it.each([
  ['x-message-ttl', 1000, 'expiry'],
  ['x-max-length', 10, 'length_limit'],
  ['x-max-length-bytes', 1000, 'length_limit'],
])('a queue that was declared with %s is found without the management', async (setting, value, code) => {
  const queue = unique('declared')
  await declareRaw(queue, { [setting]: value })
  expect(await examine(queue)).toEqual([
    `error ${code} ${queue}`,
    `error ${code} ${queue}.failed`,
    'warning unseen policies',
  ])
})

it('limits are found with the management, whether a declaration or a policy sets them', {
  timeout: 40_000,
}, async ({ skip }) => {
  if (broker.httpUrl === undefined) skip('The management is that of a server of our own.')
  const queue = unique('limited')
  await declareRaw(queue, { 'x-message-ttl': 1000 })
  const definition = { 'delivery-limit': 3, 'max-length': 10 }
  await fetch(`${broker.httpUrl}/api/policies/%2f/${queue}`, {
    method: 'PUT',
    headers: { authorization: `Basic ${btoa('guest:guest')}` },
    body: JSON.stringify({ pattern: `^${queue}$`, definition }),
  })
  const options = { exchange: 'doctor', managementUrl: broker.httpUrl }
  await vi.waitFor(
    async () =>
      expect(await examine(queue, options)).toEqual([
        `error delivery_limit ${queue}`,
        `error length_limit ${queue}`,
        `error expiry ${queue}`,
        `error missing ${queue}`, // its binding
        `error expiry ${queue}.failed`,
      ]),
    { timeout: 30_000, interval: 200 },
  )
})
