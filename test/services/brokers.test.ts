import { createConnection } from 'node:net'
import { expect, it } from 'vitest'
import { startNats } from './nats.js'
import { startRabbitmq } from './rabbitmq.js'
import { BROKER_MS } from './shared-broker.js'

/** Whether somebody listens there. */
function answers(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  return new Promise(resolve => {
    const socket = createConnection({ host: hostname, port: Number(port) })
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

it.each([
  ['NATS', () => startNats()],
  ['RabbitMQ', () => startRabbitmq()],
])(
  '%s of our own can be killed, comes back on the same port, and ends with the test',
  {
    timeout: BROKER_MS,
  },
  async (_, start) => {
    const server = await start()
    try {
      expect(await answers(server.url)).toBe(true)
      await server.kill()
      expect(await answers(server.url)).toBe(false)
      await server.start()
      expect(await answers(server.url)).toBe(true)
    } finally {
      await server.close()
    }
    expect(await answers(server.url)).toBe(false)
  },
)
