import type { Msg, Subscription } from '@nats-io/transport-node'
import type { DeliveryHandler } from '../bus.js'
import type { ClosableConsumer } from '../consumers.js'
import { NoQueueError } from '../errors.js'
import { OpenDeliveries } from '../open-deliveries.js'
import { reconnectDelayMs } from '../reconnect.js'
import type { OnTrouble } from '../trouble.js'
import type { NatsConnection } from './connection.js'
import { fromNats, isFor } from './message.js'

/**
 * How often the server says that it is there while a request waits. That is also when it notices that who asked has
 * died, which must be before it delivers again what that one had: several times in the time that it waits for an
 * acknowledgement.
 */
const heartbeatMsOf = (ackWaitMs: number) => Math.min(5000, Math.max(100, ackWaitMs / 6))
/** For how many heartbeats the server keeps a request. */
const EXPIRES_AFTER = 6
/** After how many it counts as silent. */
const SILENT_AFTER = 2.5
const WITHDRAW_MS = 1000

/** What the server says of a request, as it numbers it. */
const HEARTBEAT = 100
const EMPTY = 404
const EXPIRED = 408

/** What a consumer needs. */
export interface NatsConsumerOptions {
  readonly connection: NatsConnection
  readonly queue: string
  readonly type: string
  /** The stream and the durable consumer that the queue is. */
  readonly stream: string
  readonly consumer: string
  /** Of the durable consumer: it hears of each delivery thrice in that time. */
  readonly ackWaitMs: number
  /** Makes up a subject that answers come to. */
  readonly createInbox: () => string
  readonly handle: DeliveryHandler
  readonly prefetch: number
  readonly onTrouble: OnTrouble
}

/**
 * Asks a durable consumer for as many messages as it has room for, never more: what it has been sent and what it has
 * asked for stay within the prefetch. All answers come to one inbox, until what was asked for counts no more: the server
 * sends nothing to an inbox that nobody listens to.
 */
export class NatsConsumer implements ClosableConsumer {
  readonly #options: NatsConsumerOptions
  readonly #deliveries: OpenDeliveries
  #inbox: Subscription
  /** Lets go of an inbox, and has not asked in the name of the next one yet. */
  #isChanging = false
  readonly #pullSubject: string
  readonly #timers: NodeJS.Timeout[]
  readonly #unwatch: () => void
  readonly #heartbeatMs: number
  /** What came while it was being stopped. */
  readonly #late: Msg[] = []
  /** How many messages it has asked for that have not come. */
  #asked = 0
  #heardAt = performance.now()
  #failures = 0
  #retry: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: NatsConsumerOptions) {
    const { connection, stream, consumer, ackWaitMs } = options
    this.#options = options
    this.#heartbeatMs = heartbeatMsOf(ackWaitMs)
    this.#deliveries = new OpenDeliveries(options.handle, () => this.#ask())
    this.#pullSubject = `${connection.jetstream.apiPrefix}.CONSUMER.MSG.NEXT.${stream}.${consumer}`
    this.#inbox = this.#listen()
    // A server that was restarted knows nothing of what was asked before; nor does one that has fallen silent.
    this.#unwatch = connection.onBack(() => void this.#askAnew())
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

  /** Once the server has answered, all that it sent before is here, and nothing more will come. */
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
   * What was asked for is still on the server's list, with nobody to send it to. If anything is given back before the
   * server has noticed, 2.9 delivers it as if for the first time. It notices when it is asked for something else.
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
    // The server's word on a request that does not count any more.
    if (!message.reply) return
    const { queue, type } = this.#options
    this.#asked = Math.max(0, this.#asked - 1)
    this.#failures = 0
    if (this.#isStopped) return void this.#late.push(message)
    if (!isFor(queue, message.headers)) {
      message.respond('+ACK')
      this.#ask()
      return
    }
    this.#deliveries.hand(fromNats(type, message.data, message.headers), deliveryCount(message) > 1, {
      ack: () => message.respond('+ACK'),
      giveBack: () => message.respond('-NAK'),
      keep: () => message.respond('+WPI'),
    })
  }

  /** The server says that it is there, or that a request is over. */
  #hear({ headers }: Msg): void {
    const code = headers?.code ?? 0
    if (code === HEARTBEAT || this.#isStopped) return
    const left = headers?.get('Nats-Pending-Messages')
    this.#asked = left ? Math.max(0, this.#asked - Number(left)) : 0
    if (code === EMPTY || code === EXPIRED) return this.#ask()

    const { queue, onTrouble } = this.#options
    onTrouble(new NoQueueError(`The queue '${queue}' sends nothing (${headers?.description}).`))
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
   * In the name of another inbox: a server that was not restarted still has what was asked for before, and would send it
   * on top of what is asked for now. What it has sent by now is taken.
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
 * How often a message was delivered, from the subject that it is acknowledged on:
 * `$JS.ACK.[domain.account.]stream.consumer.delivered.sequence.…`
 */
function deliveryCount({ reply = '' }: Msg): number {
  const tokens = reply.split('.')
  return Number(tokens[tokens.length > 9 ? 6 : 4])
}
