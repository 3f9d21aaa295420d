import type { FailedMessage } from '../bus.js'
import { BusUnavailableError, NoQueueError } from '../errors.js'
import { closeChannel, type RabbitmqConnection } from './connection.js'
import { closeReason, NOT_FOUND } from './driver.js'
import { fromRabbitmq } from './message.js'

/**
 * Gets the messages of a classic queue one by one and holds them all until the end, so that none comes twice. When the
 * channel closes, the unacknowledged ones return to their places.
 */
export async function* browseQueue(
  connection: RabbitmqConnection,
  queue: string,
  limit: number,
  timeoutMs: number,
): AsyncGenerator<FailedMessage> {
  const channel = await connection.channel(timeoutMs)
  let isOpen = true
  channel.on('close', () => {
    isOpen = false
  })
  try {
    const { messageCount } = await channel.checkQueue(queue)
    for (let left = Math.min(messageCount, limit); left > 0; left--) {
      const message = await channel.get(queue)
      if (message === false) return
      yield {
        ...fromRabbitmq(message),
        async remove() {
          if (!isOpen) throw new BusUnavailableError(connection.name)
          channel.ack(message)
        },
      }
    }
  } catch (error) {
    throw closeReason(error).code === NOT_FOUND ? new NoQueueError(`There is no queue '${queue}'.`) : error
  } finally {
    await closeChannel(channel)
  }
}
