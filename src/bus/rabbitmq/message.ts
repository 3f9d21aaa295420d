import type { Options, Message as RabbitmqMessage } from 'amqplib'
import type { Message, NewMessage } from '../bus.js'
import { bytesOf } from '../message.js'

/** A message in RabbitMQ's form. */
export interface Outgoing {
  readonly content: Buffer
  readonly options: Options.Publish
}

/** Converts a message for RabbitMQ. `mandatory` makes the broker return it if no queue takes it. */
export function toRabbitmq(message: NewMessage): Outgoing {
  const { id, type, headers } = message
  const bytes = bytesOf(message)
  return {
    content: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    options: { messageId: id, type, headers: { ...headers }, persistent: true, mandatory: true },
  }
}

/** Converts a message from RabbitMQ, whichever program published it. */
export function fromRabbitmq({ content, fields, properties }: RabbitmqMessage): Message {
  const { messageId, type, headers = {} } = properties
  // The routing key of a published message is its type; that of a message put into a queue is the queue's name.
  const isPut = fields.exchange === '' && typeof type === 'string'
  return {
    id: typeof messageId === 'string' && messageId !== '' ? messageId : undefined,
    type: isPut ? type : fields.routingKey,
    body: content,
    headers: textHeaders(headers),
  }
}

/** Keeps plain values as text. Other programs may send headers of any type, and the broker adds its own. */
function textHeaders(headers: Record<string, unknown>): Record<string, string> {
  const isPlain = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)
  const entries = Object.entries(headers).filter(([name, value]) => isPlain(value) && !/^x-/i.test(name))
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]))
}
