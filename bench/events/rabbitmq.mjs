import amqp from 'amqplib'
import { tsImport } from 'tsx/esm/api'
import { openRabbitmq } from '../../dist/bus/rabbitmq/index.js'

const { startRabbitmq } = await tsImport('../../test/services/rabbitmq.ts', import.meta.url)

export const name = 'RabbitMQ'
export const start = () => startRabbitmq()
export const openBus = url => openRabbitmq(url)

/** Hand-written code on the client alone, with the same queues. */
export async function openByHand(url) {
  const connection = await amqp.connect(url, { noDelay: true })
  return {
    async consume({ queue }, prefetch, handle) {
      const channel = await connection.createChannel()
      await channel.prefetch(prefetch)
      await channel.consume(queue, message => {
        handle(JSON.parse(message.content.toString()))
        channel.ack(message)
      })
    },
    async publish({ type }, batches) {
      const channel = await connection.createConfirmChannel()
      for (const batch of batches) {
        for (const { id, body } of batch) {
          const options = { messageId: id, persistent: true, mandatory: true }
          channel.publish('redrive', type, Buffer.from(body), options)
        }
        await channel.waitForConfirms()
      }
    },
    close: () => connection.close(),
  }
}
