import { jetstream } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { tsImport } from 'tsx/esm/api'
import { openNats } from '../../dist/bus/nats/index.js'

const { startNats } = await tsImport('../../test/services/nats.ts', import.meta.url)

export const name = 'NATS'
export const start = () => startNats()
export const openBus = url => openNats(url)

/** Hand-written code on the client alone, with the same streams. */
export async function openByHand(url) {
  const connection = await connect({ servers: url })
  const stream = jetstream(connection)
  return {
    async consume({ queue, type }, prefetch, handle) {
      const consumer = await stream.consumers.get(`redrive+${type}`, queue)
      await consumer.consume({
        max_messages: prefetch,
        callback: message => {
          handle(message.json())
          message.ack()
        },
      })
    },
    async publish({ type }, batches) {
      for (const batch of batches)
        await Promise.all(batch.map(event => stream.publish(`redrive.${type}`, ...parts(event))))
    },
    close: () => connection.close(),
  }
}

function parts({ id, body }) {
  const own = headers()
  own.set('Redrive-Id', id)
  return [body, { headers: own }]
}
