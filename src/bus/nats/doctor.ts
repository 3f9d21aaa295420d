import type { ConsumerConfig, StreamConfig } from '@nats-io/jetstream'
import { type Finding, type FindingCode, failedQueueOf, type Topology } from '../bus.js'
import { BusUnavailableError } from '../errors.js'
import { finding, unconsumed } from '../finding.js'
import { readJson } from '../read-json.js'
import type { TlsOptions } from '../tls-options.js'
import { orMissing } from './driver.js'
import type { NatsParts } from './nats-bus.js'

/** Checks streams, consumers and the server's disk settings for anything that could lose a message. */
export async function examineTopology(parts: NatsParts, topology: Topology): Promise<Finding[]> {
  const { manager } = parts.connection
  const { names } = parts
  const findings: Finding[] = []
  for (const [queue, type] of Object.entries(topology)) {
    const stream = await orMissing(manager.streams.info(names.streamOf(type)))
    const consumer = await orMissing(manager.consumers.info(names.streamOf(type), names.consumerOf(queue)))
    const isOpen = stream?.config.subjects.includes(names.subjectOf(type))
    if (consumer === undefined || !isOpen) findings.push(missing(queue))
    if (stream !== undefined) findings.push(...streamFindings(queue, stream.config, 'interest'))
    if (consumer !== undefined) {
      findings.push(...consumerFindings(queue, consumer.config))
      // A consumer waits for messages, or has some in hand.
      const { num_pending, num_waiting, num_ack_pending } = consumer
      if (num_pending > 0 && num_waiting === 0 && num_ack_pending === 0) findings.push(unconsumed(queue, num_pending))
    }

    const failedQueue = failedQueueOf(queue)
    const failed = await orMissing(manager.streams.info(names.failedStreamOf(failedQueue)))
    if (failed === undefined) findings.push(missing(failedQueue))
    else findings.push(...streamFindings(failedQueue, failed.config, 'limits'))
  }
  return [...findings, ...(await diskFindings(parts))]
}

function streamFindings(queue: string, config: StreamConfig, retention: string): Finding[] {
  const findings: Finding[] = []
  const { name, max_age, max_msgs, max_bytes, max_msgs_per_subject, discard } = config
  const find = (code: FindingCode, problem: string, severity?: Finding['severity']) =>
    findings.push(finding(code, queue, `The stream '${name}' ${problem}`, severity))
  if (config.storage !== 'file')
    find('memory_only', 'is kept in memory: a restart of the server loses it. Create it again, on disk.')
  if (config.retention !== retention) find('mismatch', `has the retention '${config.retention}', not '${retention}'.`)
  if (max_age > 0) find('expiry', `drops messages after ${max_age / 1e9} s (max_age). Remove that limit.`)
  const limits = Object.entries({ max_msgs, max_bytes, max_msgs_per_subject }).filter(([, value]) => value > 0)
  for (const [limit, value] of limits) {
    if (discard === 'new') find('length_limit', `refuses messages at ${limit} ${value}.`, 'warning')
    else
      find(
        'length_limit',
        `drops its oldest messages at ${limit} ${value}. Remove that limit, or discard new messages instead.`,
      )
  }
  return findings
}

function consumerFindings(
  queue: string,
  { name, max_deliver = -1, inactive_threshold = 0 }: ConsumerConfig,
): Finding[] {
  const findings: Finding[] = []
  if (max_deliver > 0) {
    const message = `The consumer '${name}' gives up on a message after ${max_deliver} deliveries. Remove that limit.`
    findings.push(finding('delivery_limit', queue, message))
  }
  if (inactive_threshold > 0) {
    const message = `The consumer '${name}' goes away after ${inactive_threshold / 1e9} s without use. Make it permanent.`
    findings.push(finding('expiry', queue, message))
  }
  return findings
}

/**
 * Checks when the server writes to disk. Only its monitoring shows that; before 2.10 it is always every two minutes.
 */
async function diskFindings({ monitorUrl, tls }: NatsParts): Promise<Finding[]> {
  const subject = 'the server'
  const advice = 'Set sync_interval: always (from 2.10 on), or use 3 replicas on machines that fail independently.'
  const unseen =
    'NATS by default writes to disk every 2 minutes, after it has confirmed: a power cut loses up to that much.'
  if (monitorUrl === undefined) {
    const message = `${unseen} ${advice} Pass the URL of the server's monitoring to check.`
    return [finding('sync_interval', subject, message, 'warning')]
  }
  const { sync_always, sync_interval } = await storageConfig(monitorUrl, tls)
  if (sync_always === true) return []
  const seconds = typeof sync_interval === 'number' ? sync_interval / 1e9 : 120
  const message = `NATS writes to disk every ${seconds} s, after it has confirmed: a power cut loses up to that much. ${advice}`
  return [finding('sync_interval', subject, message, 'warning')]
}

async function storageConfig(monitorUrl: URL, tls: TlsOptions | undefined): Promise<Record<string, unknown>> {
  try {
    const server = await readJson<{ jetstream?: { config?: Record<string, unknown> } }>(
      new URL('varz', monitorUrl),
      tls,
    )
    return server?.jetstream?.config ?? {}
  } catch (cause) {
    throw new BusUnavailableError(`the monitoring of NATS at ${monitorUrl.host}`, { cause })
  }
}

function missing(name: string): Finding {
  return finding('missing', name, `There is no queue '${name}', or it does not get its events. Declare it.`)
}
