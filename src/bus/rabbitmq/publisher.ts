import type { ConfirmChannel } from 'amqplib'
import type { NewMessage } from '../bus.js'
import { MessageTooLargeError, NoQueueError, PublishRefusedError, PublishUnconfirmedError } from '../errors.js'
import { Slots } from '../slots.js'
import { within } from '../within.js'
import { closeChannel, type RabbitmqConnection } from './connection.js'
import { closeReason, NOT_FOUND, PRECONDITION_FAILED } from './driver.js'
import { type Outgoing, toRabbitmq } from './message.js'

/** The maximum number of unconfirmed publishes. Further ones wait for a slot. */
const MAX_UNCONFIRMED = 1000
/**
 * A larger message gets its own channel, because the broker closes a channel, with all its publishes, if it is too
 * large.
 */
const LARGE_BYTES = 256 * 1024
const MAX_LARGE = 10

/** The destination of a message. The exchange with the empty name puts it into the queue named by the key. */
export interface Target {
  readonly exchange: string
  readonly key: string
}

interface Pending extends Target {
  readonly id: string
  readonly bytes: number
  /** True if the broker returned the message because no queue takes it. It still confirms it afterwards. */
  isReturned: boolean
}

/** A channel with publisher confirms, its pending publishes, and the reason why it closed. */
interface Line {
  readonly channel: ConfirmChannel
  readonly pending: Set<Pending>
  isClosed: boolean
  problem: unknown
}

/** Publishes messages and waits for the broker to confirm each. */
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

  /** Resolves once every queue that takes the message has it on record. */
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

  /** Resolves once no publish is unconfirmed. */
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
    // Runs before the driver's own listener, which fails all pending confirmations.
    channel.prependListener('close', () => {
      line.isClosed = true
      onClose()
    })
    return line
  }

  /** Returns the error of a failed publish. A `problem` means that the channel closed or that the broker refused. */
  #failureOf(pending: Pending, line: Line, problem: unknown): Error | undefined {
    const { id, exchange, key, bytes, isReturned } = pending
    if (isReturned)
      return new NoQueueError(exchange === '' ? `There is no queue '${key}'.` : `There is no queue for '${key}'.`)
    if (!problem) return undefined
    if (!line.isClosed) return new PublishRefusedError(id, key, 'the queue is full or shutting down')

    const { code, text } = closeReason(line.problem)
    const maxBytes = code === PRECONDITION_FAILED ? Number(/max size (\d+)/.exec(text)?.[1]) : NaN
    const options = { cause: line.problem ?? problem }
    if (bytes > maxBytes) return new MessageTooLargeError(id, bytes, maxBytes, options)
    if (code === NOT_FOUND && exchange !== '') return new NoQueueError(`There is no exchange '${exchange}'.`, options)
    return new PublishUnconfirmedError(id, this.#connection.name, options)
  }
}
