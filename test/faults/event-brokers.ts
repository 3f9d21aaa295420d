import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { connect as connectRabbitmq } from 'amqplib'
import { failedQueueOf } from 'redrive/bus'

/** Changes made to a broker behind Redrive's back. */
export interface Meddling {
  deleteFailedQueue(url: string, queue: string): Promise<void>
  /** Publishes as a program does that knows nothing of Redrive: without an id. */
  publishBare(url: string, type: string, body: string): Promise<void>
  /** How large a message the servers of the tests take. */
  readonly maxBytes: number
}

export const MEDDLING: Readonly<Record<'rabbitmq' | 'nats', Meddling>> = {
  rabbitmq: {
    maxBytes: 8 * 1024 * 1024,
    async deleteFailedQueue(url, queue) {
      const connection = await connectRabbitmq(url)
      const channel = await connection.createChannel()
      await channel.deleteQueue(failedQueueOf(queue))
      await connection.close()
    },
    async publishBare(url, type, body) {
      const connection = await connectRabbitmq(url)
      const channel = await connection.createConfirmChannel()
      channel.publish('redrive', type, Buffer.from(body))
      await channel.waitForConfirms()
      await connection.close()
    },
  },
  nats: {
    maxBytes: 1024 * 1024,
    async deleteFailedQueue(url, queue) {
      const client = await connectNats({ servers: url })
      const { streams } = await jetstreamManager(client)
      await streams.delete(`redrive-failed+${queue}`)
      await client.close()
    },
    async publishBare(url, type, body) {
      const client = await connectNats({ servers: url })
      client.publish(`redrive.${type}`, body)
      await client.flush()
      await client.close()
    },
  },
}
