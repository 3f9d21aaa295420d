import { expect, it, onTestFinished, vi } from 'vitest'
import { openNats, openNatsIdempotencyStore } from './nats/index.js'
import { openRabbitmq } from './rabbitmq/index.js'

it.each([
  ['amqplib', '^2.3', () => openRabbitmq('amqp://localhost')],
  ['@nats-io/transport-node', '^3.4', () => openNats('nats://localhost')],
  ['@nats-io/kv', '^3.4', () => openNatsIdempotencyStore('nats://localhost')],
])('who opens what needs %s without having it is told what to install', async (name, range, open) => {
  vi.doMock(name, () => {
    throw new Error('Cannot find package')
  })
  onTestFinished(() => {
    vi.doUnmock(name)
    vi.resetModules()
  })
  await expect(open()).rejects.toMatchObject({
    code: 'missing_package',
    message: expect.stringContaining(`npm install ${name}@${range}`),
  })
})
