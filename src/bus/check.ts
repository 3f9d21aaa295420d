import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import { isFailedQueue, type NewMessage, type Topology } from './bus.js'

/** Words of letters, digits, `-` and `_`, joined by dots. Every broker accepts such names unchanged. */
const NAME = /^[\w-]+(\.[\w-]+)*$/
const MAX_NAME_LENGTH = 120

/** Text that survives as a header line: no control characters, no lone surrogates, no space at either end. */
const isOneLine = (text: unknown): text is string =>
  typeof text === 'string' && !/[\p{Cc}\p{Cs}]/u.test(text) && text === text.trim()
const MAX_ID_BYTES = 255
/** RabbitMQ's client and NATS both accept 64 KiB, including their framing and Redrive's own headers. */
const MAX_HEADERS_BYTES = 60_000
const BYTES_AROUND = 8

/** Header names that mean something to a broker or to Redrive itself. */
const RESERVED_HEADER = /^(nats-|redrive-|x-|cc$|bcc$)/i

/** Throws unless every bus can carry the message unchanged. */
export function checkMessage({ id, type, body, headers = {} }: NewMessage): void {
  if (!isOneLine(id) || id === '' || Buffer.byteLength(id) > MAX_ID_BYTES) {
    throw new OptionError('id', `'id' must be text on one line, of 1 to 255 bytes, got ${JSON.stringify(id)}.`)
  }
  checkName('type', type)
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw new OptionError('body', `'body' must be text or a Uint8Array, got ${body === null ? 'null' : typeof body}.`)
  }
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    checkHeader(name, value)
    bytes += name.length + Buffer.byteLength(value) + BYTES_AROUND
  }
  if (bytes > MAX_HEADERS_BYTES) {
    throw new OptionError('headers', `The headers of a message have room for 60 kB in all, got ${bytes} bytes.`)
  }
}

/** Throws unless every bus can declare the queues. */
export function checkTopology(topology: Topology): void {
  for (const [queue, type] of Object.entries(topology)) {
    checkName('queue', queue)
    checkName('type', type)
    if (isFailedQueue(queue)) {
      throw new OptionError('queue', `'${queue}' cannot be declared by itself: a failed queue comes with its queue.`)
    }
  }
}

/** Throws unless the name is that of a failed queue. */
export function checkFailedQueue(name: string): void {
  checkName('queue', name)
  if (!isFailedQueue(name))
    throw new OptionError(
      'queue',
      `${quoted(name)} is not a failed queue: the names of failed queues end with '.failed'.`,
    )
}

/** Throws unless every broker supports this prefetch. AMQP carries it in 16 bits. */
export function checkPrefetch(prefetch: number): void {
  if (!Number.isInteger(prefetch) || prefetch < 1 || prefetch > 65_535) {
    throw new OptionError('prefetch', `'prefetch' must be a whole number from 1 to 65535, got ${prefetch}.`)
  }
}

/** Throws unless every broker accepts the name for a queue or type. */
export function checkName(option: 'queue' | 'type', name: string): void {
  if (typeof name === 'string' && name.length <= MAX_NAME_LENGTH && NAME.test(name)) return
  throw new OptionError(
    option,
    `'${option}' must be words of letters, digits, '-' and '_' joined by dots, such as 'json.parsed', and up to ${MAX_NAME_LENGTH} characters, got ${quoted(name)}.`,
  )
}

function checkHeader(name: string, value: string): void {
  if (!/^[\w-]{1,120}$/.test(name) || RESERVED_HEADER.test(name)) {
    throw new OptionError('headers', `A header cannot be called ${quoted(name)}: use letters, digits, '-', '_'.`)
  }
  if (!isOneLine(value)) {
    // The value may be a secret.
    throw new OptionError('headers', `The header '${name}' must be text on one line, without control characters.`)
  }
}
