import type { ConsumerInfo, JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream'
import { type FoundQueue, failedQueueOf, type QueueStatus, type Topology } from '../bus.js'
import { NoQueueError, TopologyError } from '../errors.js'
import { createTogether } from './create-together.js'
import { orMissing } from './driver.js'
import type { NatsNames } from './names.js'

/** The settings of declared streams and consumers. */
export interface NatsTopologyOptions {
  readonly names: NatsNames
  readonly replicas: number
  /** The acknowledgement deadline: how long the server waits for a sign of life before it redelivers. */
  readonly ackWaitMs: number
}

/**
 * On disk and without limits. If somebody sets a limit later, the stream refuses new messages and drops no old ones.
 */
const KEPT = { storage: 'file', discard: 'new' } as const

/** When a consumer dies while writing a dead letter, another follows within the lease. An hour covers any lease. */
const DUPLICATE_WINDOW_NS = 3_600_000 * 1e6

/** Creates a stream for each type, a durable consumer for each queue, and a stream for each failed queue. */
export async function declareTopology(
  manager: JetStreamManager,
  options: NatsTopologyOptions,
  topology: Topology,
): Promise<void> {
  for (const [queue, type] of Object.entries(topology)) {
    await declareFailedQueue(manager, options, failedQueueOf(queue))
    await declareQueue(manager, options, queue, type)
  }
}

/**
 * Creates a queue, and its stream if needed. A stream keeps an event until all its queues have acknowledged it; without
 * any queue it would confirm the event and drop it. So a new stream stays closed until its first queue exists.
 */
async function declareQueue(
  manager: JetStreamManager,
  { names, replicas, ackWaitMs }: NatsTopologyOptions,
  queue: string,
  type: string,
): Promise<void> {
  const name = names.streamOf(type)
  const { config } = await ensureStream(manager, {
    ...KEPT,
    name,
    subjects: [names.closedSubjectOf(type)],
    retention: 'interest',
    num_replicas: replicas,
  })
  if (config.retention !== 'interest') throw new TopologyError(name, `its retention is '${config.retention}'`)

  const consumer = names.consumerOf(queue)
  const found = await orMissing(manager.consumers.info(name, consumer))
  if (found === undefined) {
    await manager.consumers.add(name, {
      durable_name: consumer,
      ack_policy: 'explicit',
      ack_wait: ackWaitMs * 1e6,
      deliver_policy: 'new',
      max_deliver: -1,
      max_ack_pending: -1,
    })
  } else if (found.config.ack_policy !== 'explicit' || found.config.deliver_subject !== undefined) {
    throw new TopologyError(consumer, 'it is not a pull consumer with explicit acknowledgement')
  }

  const open = names.subjectOf(type)
  if (!config.subjects.includes(open)) await manager.streams.update(name, { ...config, subjects: [open] })
}

async function declareFailedQueue(
  manager: JetStreamManager,
  { names, replicas }: NatsTopologyOptions,
  failedQueue: string,
): Promise<void> {
  const name = names.failedStreamOf(failedQueue)
  const subjects = [names.failedSubjectOf(failedQueue)]
  const { config } = await ensureStream(manager, {
    ...KEPT,
    name,
    subjects,
    retention: 'limits',
    num_replicas: replicas,
    duplicate_window: DUPLICATE_WINDOW_NS,
  })
  if (config.retention !== 'limits') throw new TopologyError(name, `its retention is '${config.retention}'`)
}

/** Returns the existing stream, or creates it. */
async function ensureStream(
  { streams }: JetStreamManager,
  config: Partial<StreamConfig> & { name: string },
): Promise<StreamInfo> {
  const openOrCreate = async () => (await orMissing(streams.info(config.name))) ?? (await streams.add(config))
  const found = await createTogether(openOrCreate)
  if (found.config.storage !== 'file') throw new TopologyError(config.name, 'it is kept in memory only')
  return found
}

/** Finds a queue's consumer, whose info names the stream. */
export async function findQueue(manager: JetStreamManager, names: NatsNames, queue: string): Promise<ConsumerInfo> {
  for await (const stream of manager.streams.names(`${names.prefix}.>`)) {
    const consumer = await orMissing(manager.consumers.info(stream, names.consumerOf(queue)))
    if (consumer !== undefined) return consumer
  }
  throw new NoQueueError(`There is no queue '${queue}'.`)
}

/** Lists the queues: the consumers of the types' streams, and the streams of failed queues. */
export async function discoverQueues(
  { streams, consumers }: JetStreamManager,
  names: NatsNames,
): Promise<FoundQueue[]> {
  const found: FoundQueue[] = []
  for await (const stream of streams.names()) {
    const failedQueue = names.failedQueueOf(stream)
    if (failedQueue !== undefined) found.push({ name: failedQueue, type: undefined })
    if (!names.isStream(stream)) continue
    for await (const { config } of consumers.list(stream)) {
      const { durable_name } = config
      if (durable_name !== undefined) found.push({ name: names.queueOf(durable_name), type: names.typeOf(stream) })
    }
  }
  return found
}

/** Returns the status of each queue and of its failed queue. */
export async function topologyStatus(
  manager: JetStreamManager,
  names: NatsNames,
  topology: Topology,
): Promise<QueueStatus[]> {
  const statuses = Object.entries(topology).map(async ([queue, type]): Promise<QueueStatus[]> => {
    const consumer = await orMissing(manager.consumers.info(names.streamOf(type), names.consumerOf(queue)))
    const failedQueue = failedQueueOf(queue)
    const failed = await orMissing(manager.streams.info(names.failedStreamOf(failedQueue)))
    const waiting = consumer && consumer.num_pending + consumer.num_ack_pending
    return [
      { name: queue, type, isFailedQueue: false, messages: waiting },
      { name: failedQueue, type, isFailedQueue: true, messages: failed?.state.messages },
    ]
  })
  return (await Promise.all(statuses)).flat()
}
