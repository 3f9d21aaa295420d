import type { Options, Message as RabbitmqMessage } from 'amqplib'
import type { Message, NewMessage } from '../bus.js'
import { bytesOf } from '../message.js'
import { unreadableIn } from './unreadable-headers.js'

/** A header that is a property of its own in AMQP, where other programs look for it. */
const CONTENT_TYPE = 'content-type'

/** A message in RabbitMQ's form. */
export interface Outgoing {
  readonly content: Buffer
  readonly options: Options.Publish
}

/** Converts a message for RabbitMQ. `mandatory` makes the broker return it if no queue takes it. */
export function toRabbitmq(message: NewMessage): Outgoing {
  const { id, type, headers: { [CONTENT_TYPE]: contentType, ...headers } = {} } = message
  const bytes = bytesOf(message)
  return {
    content: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    options: { messageId: id, type, contentType, headers, persistent: true, mandatory: true },
  }
}

/** Converts a message from RabbitMQ, whichever program published it. */
export function fromRabbitmq({ content, fields, properties }: RabbitmqMessage): Message {
  const { messageId, type, contentType, headers = {} } = properties
  // The routing key of a published message is its type; that of a message put into a queue is the queue's name.
  const isPut = fields.exchange === '' && typeof type === 'string'
  return {
    id: typeof messageId === 'string' && messageId !== '' ? messageId : undefined,
    type: isPut ? type : fields.routingKey,
    body: content,
    headers: textHeaders(contentType === undefined ? headers : { ...headers, [CONTENT_TYPE]: contentType }),
    unreadable: unreadableIn(properties),
  }
}

/** Values as text: other programs may send headers of any type. Leaves out those that the broker adds. */
function textHeaders(headers: Record<string, unknown>): Record<string, string> {
  const entries = Object.entries(headers).filter(([name]) => !/^x-/i.test(name))
  return Object.fromEntries(entries.map(([name, value]) => [name, headerText(value)]))
}

/** A plain value as its text; a table, a list, a time or bytes as JSON. */
function headerText(value: unknown): string {
  if (value === null || typeof value !== 'object') return String(value)
  try {
    return JSON.stringify(Buffer.isBuffer(value) ? value.toString('base64') : value)
  } catch (problem) {
    // Tables may be nested more deeply than JavaScript can write.
    return `(${problem instanceof Error ? problem.message : problem})`
  }
}
