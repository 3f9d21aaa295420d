import type { Msg, MsgHdrs, Subscription } from '@nats-io/transport-node'
import type { DeliveryHandler, DeliveryOptions } from '../bus.js'
import type { ClosableConsumer } from '../consumers.js'
import { BusUnavailableError, NoQueueError } from '../errors.js'
import { OpenDeliveries } from '../open-deliveries.js'
import { reconnectDelayMs } from '../reconnect.js'
import type { OnTrouble } from '../trouble.js'
import type { NatsConnection } from './connection.js'
import { headersOf } from './headers.js'
import { fromNats, isFor } from './message.js'

/**
 * The interval at which the server sends heartbeats while a pull request waits. The server also notices at that moment
 * that the client behind a request has died, and must do so before it redelivers that client's messages. So there are
 * several heartbeats within the acknowledgement deadline.
 */
const heartbeatMsOf = (ackWaitMs: number) => Math.min(5000, Math.max(100, ackWaitMs / 6))
/** The lifetime of a pull request, in heartbeats. */
const EXPIRES_AFTER = 6
/** The number of heartbeats without a word after which the server counts as silent. */
const SILENT_AFTER = 2.5
const WITHDRAW_MS = 1000

/** The server's status codes for a pull request. */
const HEARTBEAT = 100
const EMPTY = 404
const EXPIRED = 408

/** The parts of a consumer. */
export interface NatsConsumerOptions {
  readonly connection: NatsConnection
  readonly queue: string
  readonly type: string
  /** The stream and the durable consumer that implement the queue. */
  readonly stream: string
  readonly consumer: string
  /** The durable consumer's acknowledgement deadline. It is extended three times within that time. */
  readonly ackWaitMs: number
  /** Creates a unique subject for replies. */
  readonly createInbox: () => string
  /** Creates an empty set of headers. */
  readonly createHeaders: () => MsgHdrs
  readonly handle: DeliveryHandler
  readonly prefetch: number
  readonly onTrouble: OnTrouble
  readonly onOutage: NonNullable<DeliveryOptions['onOutage']>
}

/**
 * Pulls messages from a durable consumer, never more than it has room for: unsettled deliveries and requested messages
 * together stay within the prefetch. All replies come to one inbox. To void its requests, the consumer changes to a new
 * inbox, since the server sends nothing to an inbox that nobody listens to.
 */
export class NatsConsumer implements ClosableConsumer {
  readonly #options: NatsConsumerOptions
  readonly #deliveries: OpenDeliveries
  #inbox: Subscription
  /** True while it drains the old inbox and has not yet pulled through the new one. */
  #isChanging = false
  readonly #pullSubject: string
  readonly #timers: NodeJS.Timeout[]
  readonly #unwatch: () => void
  readonly #heartbeatMs: number
  /** Messages that arrived while it was stopping. */
  readonly #late: Msg[] = []
  /** The number of messages requested that have not arrived yet. */
  #asked = 0
  #heardAt = performance.now()
  #failures = 0
  #retry: NodeJS.Timeout | undefined
  #isStopped = false
  #isOut = false

  constructor(options: NatsConsumerOptions) {
    const { connection, stream, consumer, ackWaitMs } = options
    this.#options = options
    this.#heartbeatMs = heartbeatMsOf(ackWaitMs)
    this.#deliveries = new OpenDeliveries(options.handle, () => this.#ask())
    this.#pullSubject = `${connection.jetstream.apiPrefix}.CONSUMER.MSG.NEXT.${stream}.${consumer}`
    this.#inbox = this.#listen()
    // A restarted server has lost all pull requests, and a silent one may have: request again.
    this.#unwatch = connection.watch(isConnected => {
      if (isConnected) void this.#askAnew()
      this.#tell(isConnected ? undefined : new BusUnavailableError(connection.name))
    })
    this.#timers = [
      setInterval(() => this.#deliveries.keep(), ackWaitMs / 3),
      setInterval(() => void (this.#isSilent() && this.#askAnew()), this.#heartbeatMs),
    ]
    this.#ask()
  }

  async stop(): Promise<void> {
    await this.#takeNoMore()
    await this.#deliveries.settled()
    await this.#leave()
  }

  async close(): Promise<void> {
    await this.#takeNoMore()
    this.#deliveries.giveBackAll()
    await this.#leave()
  }

  /** Stops pulling. After the server's answer nothing more arrives, and everything sent before is here. */
  async #takeNoMore(): Promise<void> {
    const { connection } = this.#options
    if (this.#isStopped) return
    this.#isStopped = true
    if (!connection.isConnected) return
    await this.#inbox.drain().catch(() => {})
    await this.#withdraw()
    for (const message of this.#late.splice(0)) message.respond('-NAK')
  }

  /**
   * Makes the server notice that nobody listens to the old requests any more, which are still on its list. If a message
   * were given back before that, NATS 2.9 would redeliver it without counting the first delivery. Any further request
   * makes the server check its list.
   */
  async #withdraw(): Promise<void> {
    const { client } = this.#options.connection
    const request = JSON.stringify({ batch: 1, expires: 10e6 })
    const options = { timeout: WITHDRAW_MS, noMux: true }
    const answer = await client.request(this.#pullSubject, request, options).catch(() => undefined)
    if (answer?.reply) this.#late.push(answer)
  }

  #listen(): Subscription {
    const { connection, createInbox } = this.#options
    return connection.client.subscribe(createInbox(), { callback: (_, message) => this.#receive(message) })
  }

  #receive(message: Msg): void {
    this.#heardAt = performance.now()
    if (message.subject === this.#inbox.getSubject()) return this.#hear(message)
    // A status reply to a request of an earlier inbox.
    if (!message.reply) return
    const { queue, type, createHeaders } = this.#options
    this.#asked = Math.max(0, this.#asked - 1)
    this.#failures = 0
    this.#tell(undefined)
    if (this.#isStopped) return void this.#late.push(message)
    const read = headersOf(message, createHeaders)
    if (!isFor(queue, read.headers)) {
      message.respond('+ACK')
      this.#ask()
      return
    }
    this.#deliveries.hand(fromNats(type, message.data, read), deliveryCount(message) > 1, {
      ack: () => message.respond('+ACK'),
      giveBack: () => message.respond('-NAK'),
      keep: () => message.respond('+WPI'),
    })
  }

  /** Handles a status message: a heartbeat, or the end of a request. */
  #hear({ headers }: Msg): void {
    const code = headers?.code ?? 0
    if (code === HEARTBEAT) this.#tell(undefined)
    if (code === HEARTBEAT || this.#isStopped) return
    const left = headers?.get('Nats-Pending-Messages')
    this.#asked = left ? Math.max(0, this.#asked - Number(left)) : 0
    if (code === EMPTY || code === EXPIRED) return this.#ask()

    const { queue, onTrouble } = this.#options
    const trouble = new NoQueueError(`The queue '${queue}' sends nothing (${headers?.description}).`)
    onTrouble(trouble)
    this.#tell(trouble)
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#ask(), reconnectDelayMs(++this.#failures))
  }

  /** Asks for what there is room for; in not too small portions, unless nothing is on its way. */
  #ask(): void {
    const { connection, prefetch } = this.#options
    if (this.#isStopped || this.#isChanging || !connection.isConnected) return
    const room = prefetch - this.#deliveries.size - this.#asked
    if (room <= 0 || (this.#asked > 0 && room < prefetch / 4)) return
    const heartbeat = Math.round(this.#heartbeatMs * 1e6)
    const request = { batch: room, expires: EXPIRES_AFTER * heartbeat, idle_heartbeat: heartbeat }
    this.#asked += room
    connection.client.publish(this.#pullSubject, JSON.stringify(request), { reply: this.#inbox.getSubject() })
  }

  /**
   * Voids all requests and pulls again through a new inbox. A server that was not restarted still has the old requests,
   * and would send their messages on top of the new ones. Messages that it has already sent are taken.
   */
  async #askAnew(): Promise<void> {
    this.#heardAt = performance.now()
    if (this.#isStopped || this.#isChanging || !this.#options.connection.isConnected) return
    this.#isChanging = true
    const before = this.#inbox
    this.#inbox = this.#listen()
    await before.drain().catch(() => {})
    this.#isChanging = false
    this.#asked = 0
    this.#ask()
  }

  /** Reports the beginning of an outage, or its end, once each. */
  #tell(failure: Error | undefined): void {
    const isOut = failure !== undefined
    if (this.#isOut === isOut || this.#isStopped) return
    this.#isOut = isOut
    this.#options.onOutage(isOut ? { isOver: false, failure } : { isOver: true })
  }

  #isSilent(): boolean {
    return this.#asked > 0 && performance.now() - this.#heardAt > SILENT_AFTER * this.#heartbeatMs
  }

  async #leave(): Promise<void> {
    const { client, isConnected } = this.#options.connection
    this.#unwatch()
    for (const timer of [...this.#timers, this.#retry]) clearInterval(timer)
    if (!this.#inbox.isClosed()) this.#inbox.unsubscribe()
    if (isConnected) await client.flush().catch(() => {})
  }
}

/**
 * Returns how often a message was delivered, which its acknowledgement subject tells:
 * `$JS.ACK.[domain.account.]stream.consumer.delivered.sequence.…`
 */
function deliveryCount({ reply = '' }: Msg): number {
  const tokens = reply.split('.')
  return Number(tokens[tokens.length > 9 ? 6 : 4])
}
