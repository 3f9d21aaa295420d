import type { Options, Message as RabbitmqMessage } from 'amqplib'
import type { Message, NewMessage } from '../bus.js'
import { bytesOf } from '../message.js'

/** A message as RabbitMQ takes it. */
export interface Outgoing {
  readonly content: Buffer
  readonly options: Options.Publish
}

/** What RabbitMQ is told of a message. `mandatory`: it comes back if no queue takes it. */
export function toRabbitmq(message: NewMessage): Outgoing {
  const { id, type, headers } = message
  const bytes = bytesOf(message)
  return {
    content: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    options: { messageId: id, type, headers: { ...headers }, persistent: true, mandatory: true },
  }
}

/** A message as it came from RabbitMQ, whoever published it. */
export function fromRabbitmq({ content, fields, properties }: RabbitmqMessage): Message {
  const { messageId, type, headers = {} } = properties
  // What came through an exchange was routed by its type; what was put into a queue was routed by the queue's name.
  const isPut = fields.exchange === '' && typeof type === 'string'
  return {
    id: typeof messageId === 'string' && messageId !== '' ? messageId : undefined,
    type: isPut ? type : fields.routingKey,
    body: content,
    headers: textHeaders(headers),
  }
}

/** Others may send headers of any type, and the broker adds its own. What is no plain value is left out. */
function textHeaders(headers: Record<string, unknown>): Record<string, string> {
  const isPlain = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)
  const entries = Object.entries(headers).filter(([name, value]) => isPlain(value) && !/^x-/i.test(name))
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]))
}
