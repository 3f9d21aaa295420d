import type { BrokerServer, BrokerUrls } from './broker.js'
import { startNats } from './nats.js'
import { startRabbitmq } from './rabbitmq.js'

const START = { rabbitmq: () => startRabbitmq(), nats: () => startNats() }

/** The brokers that tests share, by name. */
export type BrokerName = keyof typeof START

/** One broker of each kind for all test files of a run, each started when it is first asked for. */
export class SharedBrokers {
  readonly #started = new Map<BrokerName, Promise<BrokerServer>>()

  /** The server in `REDRIVE_TEST_RABBITMQ_URL` or `REDRIVE_TEST_NATS_URL`; else one of our own. `undefined`: no such kind. */
  async find(name: string): Promise<BrokerUrls | undefined> {
    if (name !== 'rabbitmq' && name !== 'nats') return undefined
    const given = process.env[`REDRIVE_TEST_${name.toUpperCase()}_URL`]
    if (given !== undefined) return { url: given }
    const server = this.#started.get(name) ?? START[name]()
    this.#started.set(name, server)
    const { url, httpUrl } = await server
    return { url, httpUrl }
  }

  async close(): Promise<void> {
    const servers = await Promise.allSettled(this.#started.values())
    for (const server of servers) if (server.status === 'fulfilled') await server.value.close()
  }
}
