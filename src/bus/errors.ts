import { FinalError, RetryableError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/** There is no connection to the broker, and none came in time. Nothing was sent. */
export class BusUnavailableError extends RetryableError {
  static {
    BusUnavailableError.prototype.name = 'BusUnavailableError'
  }

  constructor(bus: string, options?: ErrorOptions) {
    super(
      `There is no connection to ${bus}${reasonOf(options?.cause)}: nothing was sent. Is it running, and does it let this user in?`,
      { ...options, code: 'bus_unavailable' },
    )
  }
}

/** The cause of a lost connection, in brackets: a refused certificate is fixed elsewhere than a server that is down. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return ''
  // Where each address of a host refused, Node's error has a code and no message.
  const text = cause.message || ('code' in cause ? String(cause.code) : '')
  const [line = ''] = text.slice(0, 200).trim().split('\n')
  return line === '' ? '' : ` (${line.replace(/\.$/, '')})`
}

/** A message was sent, and no confirmation came. The broker may have it or not. */
export class PublishUnconfirmedError extends RetryableError {
  static {
    PublishUnconfirmedError.prototype.name = 'PublishUnconfirmedError'
  }

  constructor(id: string, bus: string, options?: ErrorOptions) {
    super(`${bus} did not confirm ${quoted(id)}, and may have it or not. Publish it again under the same id.`, {
      ...options,
      code: 'publish_unconfirmed',
    })
  }
}

/** The broker has a message and will not keep it, most often because a queue is full. */
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

/** No queue takes the event, or there is no queue of that name. */
export class NoQueueError extends RetryableError {
  static {
    NoQueueError.prototype.name = 'NoQueueError'
  }

  constructor(problem: string, options?: ErrorOptions) {
    super(`${problem} Declare it: bus.declare({ queue: 'type' }).`, { ...options, code: 'no_queue' })
  }
}

/** The message is larger than the broker takes. */
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

/** What is to be declared is there already, and is of another kind. It was left as it is. */
export class TopologyError extends FinalError {
  static {
    TopologyError.prototype.name = 'TopologyError'
  }

  constructor(name: string, problem: string, options?: ErrorOptions) {
    super(
      `'${name}' is there already, but ${problem}. It was left as it is. Empty and delete it, or use another name.`,
      {
        ...options,
        code: 'topology_mismatch',
      },
    )
  }
}

/** The bus was closed, so that it takes no more calls. */
export class BusClosedError extends FinalError {
  static {
    BusClosedError.prototype.name = 'BusClosedError'
  }

  constructor(bus: string) {
    super(`The bus ${bus} is closed. Open it again, or close it later.`, { code: 'bus_closed' })
  }
}
