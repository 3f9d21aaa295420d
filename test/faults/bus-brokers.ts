import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { retry } from 'redrive'
import type { Bus, NewMessage } from 'redrive/bus'
import { openNats } from 'redrive/nats'
import type { Duration } from 'redrive/policy'
import { openRabbitmq } from 'redrive/rabbitmq'
import type { BrokerServer, BrokerUrls } from '../services/broker.js'
import { startNats } from '../services/nats.js'
import { startRabbitmq } from '../services/rabbitmq.js'

/** A kind of broker that the fault tests are run against. */
export interface BrokerKind {
  readonly name: 'rabbitmq' | 'nats'
  start(): Promise<BrokerServer>
  open(url: string, options?: OpenOptions): Promise<Bus>
  /** How long after it was made a queue survives a crash. */
  readonly madeMs: number
  /** A text that the broker's confirmation of a publish contains, and nothing else that it sends. */
  readonly confirmation: string
  /** Lets a failed queue hold no more than one message, and refuse the others. */
  limitToOne(broker: BrokerUrls, failedQueue: string): Promise<void>
}

/** The options of both kinds. */
export interface OpenOptions {
  readonly timeout?: Duration
  readonly onTrouble?: (trouble: Error) => void
}

export const BROKERS: readonly BrokerKind[] = [
  {
    name: 'rabbitmq',
    start: startRabbitmq,
    open: (url, options) => openRabbitmq(url, options),
    // 3.10 writes down late that there is a quorum queue: one that was made in the last second may not survive.
    madeMs: 5000,
    // A frame of AMQP: class 60, method 80 is basic.ack.
    confirmation: '\u0000\u003c\u0000\u0050',
    async limitToOne({ httpUrl }, failedQueue) {
      await fetch(`${httpUrl}/api/policies/%2f/${failedQueue}`, {
        method: 'PUT',
        headers: { authorization: `Basic ${btoa('guest:guest')}` },
        body: JSON.stringify({
          pattern: `^${failedQueue}$`,
          definition: { 'max-length': 1, overflow: 'reject-publish' },
          'apply-to': 'queues',
        }),
      })
    },
  },
  {
    name: 'nats',
    start: () => startNats(),
    open: (url, options) => openNats(url, { ackWait: '2s', ...options }),
    madeMs: 0,
    confirmation: '"seq":',
    async limitToOne({ url }, failedQueue) {
      const client = await connect({ servers: url })
      const { streams } = await jetstreamManager(client)
      const name = `redrive-failed+${failedQueue.replace(/\.failed$/, '').replaceAll('.', '+')}`
      await streams.update(name, { ...(await streams.info(name)).config, max_msgs: 1 })
      await client.close()
    },
  },
]

/** Publishes until it is confirmed, as whoever must not lose an event does: under the same id. */
export function publishPersistently(bus: Bus, message: NewMessage): Promise<void> {
  return retry(() => bus.publish(message), { attempts: 1000, backoff: { base: '50ms', max: '1s' }, ttl: '60s' })
}

/** Events of a type, numbered from 1. */
export function events(type: string, count: number): NewMessage[] {
  return numbers(count).map(number => ({ id: `event-${number}`, type, body: number }))
}

/** The numbers from 1 on, as text. */
export function numbers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index + 1))
}

/** A queue and a type that no other test has. */
export function freshNames(): { readonly queue: string; readonly type: string } {
  const unique = crypto.randomUUID().slice(0, 13)
  return { queue: `faults-${unique}`, type: `happened.${unique}` }
}
