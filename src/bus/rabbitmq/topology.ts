import type { Channel, Options } from 'amqplib'
import { failedQueueOf, isFailedQueue, type QueueStatus, type Topology } from '../bus.js'
import { TopologyError } from '../errors.js'
import type { RabbitmqConnection } from './connection.js'
import { closeReason, NOT_FOUND, PRECONDITION_FAILED } from './driver.js'

/**
 * Returns the properties to declare a queue with.
 *
 * - A main queue is a quorum queue, which is replicated. From 4.0 on, these drop a message at its twentieth delivery
 *   unless `x-delivery-limit` is -1; before 4.0, that same -1 makes them drop it at the second.
 * - A failed queue is a classic queue, which returns a browsed message to its place. A quorum queue would put it
 *   elsewhere.
 */
export function queueOptions(name: string, serverVersion: string): Options.AssertQueue {
  if (isFailedQueue(name)) return { durable: true, arguments: { 'x-queue-type': 'classic' } }
  const noLimit = Number.parseInt(serverVersion, 10) >= 4 ? { 'x-delivery-limit': -1 } : {}
  return { durable: true, arguments: { 'x-queue-type': 'quorum', ...noLimit } }
}

/** Declares a queue. Throws a `TopologyError` that names the difference if it exists with other properties. */
export async function assertQueue(channel: Channel, name: string): Promise<void> {
  try {
    await channel.assertQueue(name, queueOptions(name, channel.connection.serverProperties.version))
  } catch (cause) {
    const { code, text } = closeReason(cause)
    if (code !== PRECONDITION_FAILED) throw cause
    throw new TopologyError(name, `not as Redrive declares it (${text})`, { cause })
  }
}

/** Declares the exchange, the queues with their failed queues, and the bindings from types to queues. */
export async function declareTopology(channel: Channel, exchange: string, topology: Topology): Promise<void> {
  try {
    await channel.assertExchange(exchange, 'topic', { durable: true })
  } catch (cause) {
    const { code, text } = closeReason(cause)
    if (code !== PRECONDITION_FAILED) throw cause
    throw new TopologyError(exchange, `not a durable topic exchange (${text})`, { cause })
  }
  for (const [queue, type] of Object.entries(topology)) {
    await assertQueue(channel, failedQueueOf(queue))
    await assertQueue(channel, queue)
    await channel.bindQueue(queue, exchange, type)
  }
}

/** Counts the messages that wait in a queue, and its consumers; `undefined` if it does not exist. */
export async function countsOf(
  connection: RabbitmqConnection,
  name: string,
  timeoutMs: number,
): Promise<{ readonly messageCount: number; readonly consumerCount: number } | undefined> {
  try {
    return await connection.ask(timeoutMs, channel => channel.checkQueue(name))
  } catch (error) {
    if (closeReason(error).code === NOT_FOUND) return undefined
    throw error
  }
}

/** Returns the status of each queue and of its failed queue. */
export async function topologyStatus(
  connection: RabbitmqConnection,
  topology: Topology,
  timeoutMs: number,
): Promise<QueueStatus[]> {
  const queues = Object.entries(topology).flatMap(([queue, type]) => [
    { name: queue, type, isFailedQueue: false },
    { name: failedQueueOf(queue), type, isFailedQueue: true },
  ])
  return Promise.all(
    queues.map(async queue => {
      const counts = await countsOf(connection, queue.name, timeoutMs)
      return { ...queue, messages: counts?.messageCount }
    }),
  )
}
