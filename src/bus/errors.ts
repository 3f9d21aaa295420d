import { connectAdvice } from '../attempt/index.js'
import { FinalError, RetryableError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/** Thrown when there is no connection to the broker and none came up in time. Nothing was sent. */
export class BusUnavailableError extends RetryableError {
  static {
    BusUnavailableError.prototype.name = 'BusUnavailableError'
  }

  constructor(bus: string, options?: ErrorOptions) {
    super(
      `There is no connection to ${bus}${reasonOf(options?.cause)}: nothing was sent. ${connectAdvice(options?.cause)}`,
      { ...options, code: 'bus_unavailable' },
    )
  }
}

/** Thrown when the broker refuses this user. Nothing was sent. */
export class BusForbiddenError extends FinalError {
  static {
    BusForbiddenError.prototype.name = 'BusForbiddenError'
  }

  constructor(bus: string, options?: ErrorOptions) {
    super(
      `${bus} refuses this user${reasonOf(options?.cause)}: nothing was sent. Check the user, the password and the virtual host or account in the URL.`,
      { ...options, code: 'bus_forbidden' },
    )
  }
}

/** The cause of a lost connection, in brackets: a refused certificate needs another fix than a server that is down. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return ''
  // When every address of a host refuses, Node's error has a code but no message.
  const text = cause.message || ('code' in cause ? String(cause.code) : '')
  // RabbitMQ's own words are within those of its driver.
  const [, answer = text] = /with message "(.*)"/.exec(text) ?? []
  const [line = ''] = answer.slice(0, 200).trim().split('\n')
  return line === '' ? '' : ` (${line.replace(/\.$/, '')})`
}

/** Thrown when a message was sent and no confirmation came. The broker may or may not have it. */
export class PublishUnconfirmedError extends RetryableError {
  static {
    PublishUnconfirmedError.prototype.name = 'PublishUnconfirmedError'
  }

  constructor(id: string, bus: string, options?: ErrorOptions) {
    super(`${bus} did not confirm ${quoted(id)}, and may or may not have it. Publish it again with the same id.`, {
      ...options,
      code: 'publish_unconfirmed',
    })
  }
}

/** Thrown when the broker refuses to keep a message, most often because a queue is full. */
export class PublishRefusedError extends RetryableError {
  static {
    PublishRefusedError.prototype.name = 'PublishRefusedError'
  }

  constructor(id: string, target: string, problem: string, options?: ErrorOptions) {
    super(
      `${quoted(id)} was refused by ${quoted(target)}: ${problem}. Nothing was kept. Make room there, then publish it again.`,
      {
        ...options,
        code: 'publish_refused',
      },
    )
  }
}

/** Thrown when there is no queue for the event, or no queue with that name. */
export class NoQueueError extends RetryableError {
  static {
    NoQueueError.prototype.name = 'NoQueueError'
  }

  constructor(problem: string, options?: ErrorOptions) {
    super(`${problem} Declare it: bus.declare({ queue: 'type' }).`, { ...options, code: 'no_queue' })
  }
}

/** Thrown when a message is larger than the broker accepts. */
export class MessageTooLargeError extends FinalError {
  static {
    MessageTooLargeError.prototype.name = 'MessageTooLargeError'
  }

  constructor(id: string, bytes: number, maxBytes: number, options?: ErrorOptions) {
    super(
      `${quoted(id)} has ${bytes} bytes, and the broker takes up to ${maxBytes}: it was not sent. Send a reference to the data instead, or raise the broker's limit.`,
      { ...options, code: 'message_too_large' },
    )
  }
}

/** Thrown when a queue to be declared already exists with other properties. It is left unchanged. */
export class TopologyError extends FinalError {
  static {
    TopologyError.prototype.name = 'TopologyError'
  }

  constructor(name: string, problem: string, options?: ErrorOptions) {
    super(`'${name}' already exists, but ${problem}. It was left as it is. Empty and delete it, or use another name.`, {
      ...options,
      code: 'topology_mismatch',
    })
  }
}

/** Thrown by calls on a bus that is closed. */
export class BusClosedError extends FinalError {
  static {
    BusClosedError.prototype.name = 'BusClosedError'
  }

  constructor(bus: string) {
    super(`The bus ${bus} is closed. Open it again, or close it later.`, { code: 'bus_closed' })
  }
}
