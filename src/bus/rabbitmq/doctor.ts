import { type Finding, type FindingCode, failedQueueOf, isFailedQueue, type Topology } from '../bus.js'
import { TopologyError } from '../errors.js'
import { finding, unconsumed } from '../finding.js'
import type { Management, QueueFacts } from './management.js'
import type { RabbitmqParts } from './rabbitmq-bus.js'
import { assertQueue, countsOf } from './topology.js'

/** The settings that drop messages, under the names that queues and policies share. */
const LIMITS: Readonly<Record<string, FindingCode>> = {
  'delivery-limit': 'delivery_limit',
  'max-length': 'length_limit',
  'max-length-bytes': 'length_limit',
  'message-ttl': 'expiry',
  expires: 'expiry',
}

/** Checks the queues for anything that could lose a message. Only the management API shows policies; AMQP does not. */
export async function examineTopology(parts: RabbitmqParts, topology: Topology): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const [queue, type] of Object.entries(topology)) {
    for (const name of [queue, failedQueueOf(queue)]) findings.push(...(await findingsOf(parts, name, type)))
  }
  return parts.management === undefined ? [...findings, POLICIES_UNSEEN] : findings
}

async function findingsOf(parts: RabbitmqParts, name: string, type: string): Promise<Finding[]> {
  const { connection, exchange, timeoutMs, management } = parts
  const counts = await countsOf(connection, name, timeoutMs)
  if (counts === undefined) return [finding('missing', name, `There is no queue '${name}'. Declare it.`)]
  const findings = management === undefined ? await differences(parts, name) : await examineQueue(management, name)
  if (isFailedQueue(name)) return findings
  const { messageCount, consumerCount } = counts
  return [
    ...findings,
    ...(management === undefined ? [] : await examineBinding(management, exchange, name, type)),
    ...(messageCount > 0 && consumerCount === 0 ? [unconsumed(name, messageCount)] : []),
  ]
}

/** Finds a difference by declaring the queue again: a no-op if it matches, else the broker names the first mismatch. */
async function differences({ connection, timeoutMs }: RabbitmqParts, name: string): Promise<Finding[]> {
  try {
    await connection.ask(timeoutMs, channel => assertQueue(channel, name))
    return []
  } catch (error) {
    if (!(error instanceof TopologyError)) throw error
    const setting = Object.keys(LIMITS).find(setting => error.message.includes(`'x-${setting}'`))
    return [finding(LIMITS[setting ?? ''] ?? 'mismatch', name, error.message)]
  }
}

async function examineQueue(management: Management, name: string): Promise<Finding[]> {
  const facts = await management.queue(name)
  return facts === undefined ? [] : [...kindFindings(name, facts), ...limitFindings(name, facts)]
}

function kindFindings(name: string, { type, durable }: QueueFacts): Finding[] {
  const expected = isFailedQueue(name) ? 'classic' : 'quorum'
  if (!durable) return [finding('memory_only', name, `'${name}' is not durable: a restart of the broker loses it.`)]
  if (type === expected) return []
  return [finding('mismatch', name, `'${name}' is a ${type} queue; Redrive declares a ${expected} queue.`)]
}

function limitFindings(name: string, facts: QueueFacts): Finding[] {
  const policy = facts.effective_policy_definition ?? {}
  const settingOf = (setting: string) => facts.arguments[`x-${setting}`] ?? policy[setting]
  const refuses = String(settingOf('overflow') ?? '').startsWith('reject-publish')
  return Object.entries(LIMITS).flatMap(([setting, code]) => {
    const value = settingOf(setting)
    if (value === undefined || value === -1) return []
    const from = facts.arguments[`x-${setting}`] === undefined ? 'by a policy' : 'by its declaration'
    if (code === 'length_limit' && refuses) {
      return [finding(code, name, `'${name}' refuses messages at ${setting} ${value} (${from}).`, 'warning')]
    }
    return [finding(code, name, `'${name}' drops messages: ${setting} is ${value} (${from}). Remove that limit.`)]
  })
}

async function examineBinding(management: Management, exchange: string, queue: string, type: string) {
  if (await management.isBound(exchange, queue, type)) return []
  return [finding('missing', queue, `'${queue}' does not get '${type}': '${exchange}' is not bound to it. Declare it.`)]
}

const POLICIES_UNSEEN = finding(
  'unseen',
  'policies',
  'Policies may set limits that AMQP does not show. Pass the URL of the management plugin to see them.',
  'warning',
)
