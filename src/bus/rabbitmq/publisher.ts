import type { ConfirmChannel } from 'amqplib'
import type { NewMessage } from '../bus.js'
import { MessageTooLargeError, NoQueueError, PublishRefusedError, PublishUnconfirmedError } from '../errors.js'
import { Slots } from '../slots.js'
import { within } from '../within.js'
import { closeChannel, type RabbitmqConnection } from './connection.js'
import { closeReason, NOT_FOUND, PRECONDITION_FAILED } from './driver.js'
import { type Outgoing, toRabbitmq } from './message.js'

/** So many publishes may wait for their confirmation; who comes then waits for a place. */
const MAX_UNCONFIRMED = 1000
/** A larger message gets a channel of its own: if it is too large, the broker closes the channel, with all that is on it. */
const LARGE_BYTES = 256 * 1024
const MAX_LARGE = 10

/** Where a message goes. The exchange without a name puts it into the queue that the key names. */
export interface Target {
  readonly exchange: string
  readonly key: string
}

interface Pending extends Target {
  readonly id: string
  readonly bytes: number
  /** It came back: no queue took it. The confirmation comes all the same. */
  isReturned: boolean
}

/** A channel on which publishes are confirmed, what is pending on it, and why it closed. */
interface Line {
  readonly channel: ConfirmChannel
  readonly pending: Set<Pending>
  isClosed: boolean
  problem: unknown
}

/** Publishes, and waits for the broker's word on each message. */
export class RabbitmqPublisher {
  readonly #connection: RabbitmqConnection
  readonly #timeoutMs: number
  readonly #slots = new Slots(MAX_UNCONFIRMED)
  readonly #largeSlots = new Slots(MAX_LARGE)
  #shared: Promise<Line> | undefined

  constructor(connection: RabbitmqConnection, timeoutMs: number) {
    this.#connection = connection
    this.#timeoutMs = timeoutMs
  }

  /** Resolves once all queues that the message goes to have it on record. */
  publish(target: Target, message: NewMessage): Promise<void> {
    const outgoing = toRabbitmq(message)
    const pending = { ...target, id: message.id, bytes: outgoing.content.length, isReturned: false }
    if (pending.bytes <= LARGE_BYTES) {
      return this.#slots.run(async () => this.#send(await this.#sharedLine(), pending, outgoing))
    }
    return this.#largeSlots.run(async () => {
      const line = await this.#open()
      try {
        await this.#send(line, pending, outgoing)
      } finally {
        await closeChannel(line.channel)
      }
    })
  }

  /** Resolves once nothing waits for its confirmation. */
  async idle(): Promise<void> {
    await this.#slots.idle()
    await this.#largeSlots.idle()
  }

  async #send(line: Line, pending: Pending, { content, options }: Outgoing): Promise<void> {
    const { exchange, key, id } = pending
    line.pending.add(pending)
    const confirmed = new Promise<void>((resolve, reject) => {
      line.channel.publish(exchange, key, content, options, problem => {
        const failure = this.#failureOf(pending, line, problem)
        if (failure === undefined) resolve()
        else reject(failure)
      })
    })
    try {
      await within(confirmed, this.#timeoutMs, () => new PublishUnconfirmedError(id, this.#connection.name))
    } finally {
      line.pending.delete(pending)
    }
  }

  #sharedLine(): Promise<Line> {
    this.#shared ??= this.#open(() => {
      this.#shared = undefined
    }).catch(error => {
      this.#shared = undefined
      throw error
    })
    return this.#shared
  }

  async #open(onClose: () => void = () => {}): Promise<Line> {
    const channel = await this.#connection.confirmChannel(this.#timeoutMs)
    const line: Line = { channel, pending: new Set(), isClosed: false, problem: undefined }
    channel.on('return', ({ properties, fields }) => {
      for (const pending of line.pending) {
        if (pending.isReturned || pending.id !== properties.messageId || pending.key !== fields.routingKey) continue
        pending.isReturned = true
        return
      }
    })
    channel.on('error', problem => {
      line.problem = problem
    })
    // Before the driver's own listener, which tells those who wait for a confirmation that none will come.
    channel.prependListener('close', () => {
      line.isClosed = true
      onClose()
    })
    return line
  }

  /** What became of a message: with a problem, the channel closed or the broker refused it. */
  #failureOf(pending: Pending, line: Line, problem: unknown): Error | undefined {
    const { id, exchange, key, bytes, isReturned } = pending
    if (isReturned)
      return new NoQueueError(exchange === '' ? `There is no queue '${key}'.` : `No queue takes '${key}'.`)
    if (!problem) return undefined
    if (!line.isClosed) return new PublishRefusedError(id, key, 'the queue is full, or on its way down')

    const { code, text } = closeReason(line.problem)
    const maxBytes = code === PRECONDITION_FAILED ? Number(/max size (\d+)/.exec(text)?.[1]) : NaN
    const options = { cause: line.problem ?? problem }
    if (bytes > maxBytes) return new MessageTooLargeError(id, bytes, maxBytes, options)
    if (code === NOT_FOUND && exchange !== '') return new NoQueueError(`There is no exchange '${exchange}'.`, options)
    return new PublishUnconfirmedError(id, this.#connection.name, options)
  }
}
