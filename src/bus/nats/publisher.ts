import type { NewMessage } from '../bus.js'
import {
  BusUnavailableError,
  MessageTooLargeError,
  NoQueueError,
  PublishRefusedError,
  PublishUnconfirmedError,
} from '../errors.js'
import { bytesOf } from '../message.js'
import { Slots } from '../slots.js'
import type { NatsConnection } from './connection.js'
import { type NatsDriver, orMissing } from './driver.js'
import { writeHeaders } from './message.js'

/** The maximum number of unconfirmed publishes. Further ones wait for a slot. */
const MAX_UNCONFIRMED = 1000

/** The destination of a message. */
export interface Target {
  readonly stream: string
  readonly subject: string
  /** The one queue that the message is for. Default: all queues of its type. */
  readonly queue?: string
  /** The error text if the stream does not exist. */
  readonly missing: string
}

/** Publishes messages and waits for the stream to confirm each. */
export class NatsPublisher {
  readonly #connection: NatsConnection
  readonly #driver: NatsDriver
  readonly #timeoutMs: number
  readonly #slots = new Slots(MAX_UNCONFIRMED)

  constructor(connection: NatsConnection, driver: NatsDriver, timeoutMs: number) {
    this.#connection = connection
    this.#driver = driver
    this.#timeoutMs = timeoutMs
  }

  /** Resolves once the stream has on record the message, or an earlier one with the same identity. */
  publish(target: Target, message: NewMessage, identity?: string): Promise<void> {
    return this.#slots.run(async () => {
      await this.#connection.connected(this.#timeoutMs)
      const body = bytesOf(message)
      const headers = writeHeaders(this.#driver.transport.headers(), message, target.queue)
      try {
        const { jetstream } = this.#connection
        const confirmed = jetstream.publish(target.subject, body, {
          headers,
          timeout: this.#timeoutMs,
          msgID: identity,
        })
        await this.#connection.whileConnected(confirmed)
      } catch (cause) {
        throw await this.#failureOf(target, message.id, body.length, cause)
      }
    })
  }

  /** Resolves once no publish is unconfirmed. */
  idle(): Promise<void> {
    return this.#slots.idle()
  }

  async #failureOf(target: Target, id: string, bytes: number, cause: unknown): Promise<Error> {
    const { transport, jetstream } = this.#driver
    const { client, manager, name } = this.#connection
    if (cause instanceof jetstream.JetStreamApiError) {
      return new PublishRefusedError(id, target.stream, cause.message, { cause })
    }
    // The only argument not checked before is the size, in which headers count too.
    if (cause instanceof transport.InvalidArgumentError) {
      return new MessageTooLargeError(id, bytes, client.info?.max_payload ?? 0, { cause })
    }
    const request = cause instanceof Error ? cause.cause : undefined
    if (!(request instanceof transport.RequestError && request.isNoResponders())) {
      return new PublishUnconfirmedError(id, name, { cause })
    }
    // Nobody listens to the subject: either the stream does not exist, or JetStream is not up yet.
    const stream = await orMissing(manager.streams.info(target.stream)).catch(() => 'unknown')
    return stream === undefined ? new NoQueueError(target.missing, { cause }) : new BusUnavailableError(name, { cause })
  }
}
