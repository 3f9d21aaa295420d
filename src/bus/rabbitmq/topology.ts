import type { Channel, Options } from 'amqplib'
import { failedQueueOf, isFailedQueue, type QueueStatus, type Topology } from '../bus.js'
import { TopologyError } from '../errors.js'
import type { RabbitmqConnection } from './connection.js'
import { closeReason, NOT_FOUND, PRECONDITION_FAILED } from './driver.js'

/**
 * How a queue is declared.
 *
 * - Work goes to quorum queues, which are replicated. From 4.0 on these drop a message at its twentieth delivery unless
 *   they are told not to; before 4.0, being told so makes them drop it at the second.
 * - What failed goes to classic queues: they put a message that was looked at back into its place. A quorum queue would
 *   put it elsewhere.
 */
export function queueOptions(name: string, serverVersion: string): Options.AssertQueue {
  if (isFailedQueue(name)) return { durable: true, arguments: { 'x-queue-type': 'classic' } }
  const noLimit = Number.parseInt(serverVersion, 10) >= 4 ? { 'x-delivery-limit': -1 } : {}
  return { durable: true, arguments: { 'x-queue-type': 'quorum', ...noLimit } }
}

/** Declares a queue, or says in which way the one that is there differs. */
export async function assertQueue(channel: Channel, name: string): Promise<void> {
  try {
    await channel.assertQueue(name, queueOptions(name, channel.connection.serverProperties.version))
  } catch (cause) {
    const { code, text } = closeReason(cause)
    if (code !== PRECONDITION_FAILED) throw cause
    throw new TopologyError(name, `not as Redrive declares it (${text})`, { cause })
  }
}

/** Declares the exchange, the queues, their failed queues, and which types go where. */
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

/** How many messages wait in a queue; `undefined` if it is not there. */
export async function countMessages(
  connection: RabbitmqConnection,
  name: string,
  timeoutMs: number,
): Promise<number | undefined> {
  try {
    return (await connection.ask(timeoutMs, channel => channel.checkQueue(name))).messageCount
  } catch (error) {
    if (closeReason(error).code === NOT_FOUND) return undefined
    throw error
  }
}

/** Where the queues stand. */
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
    queues.map(async queue => ({ ...queue, messages: await countMessages(connection, queue.name, timeoutMs) })),
  )
}
