import { monitoringUrl } from '../broker-url.js'
import { type FoundQueue, isFailedQueue } from '../bus.js'
import { BusUnavailableError } from '../errors.js'
import { readJson } from '../read-json.js'
import type { TlsOptions } from '../tls-options.js'

/** The properties of a queue, as RabbitMQ's management plugin names them. */
export interface QueueFacts {
  readonly durable: boolean
  readonly type: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly effective_policy_definition?: Readonly<Record<string, unknown>>
}

/** A rule by which an exchange sends the messages with one routing key to one destination. */
interface Binding {
  readonly destination: string
  readonly destination_type: string
  readonly routing_key: string
}

/** RabbitMQ's HTTP API. It shows policies and lists queues, which AMQP cannot do. */
export class Management {
  readonly #url: URL
  readonly #vhost: string
  readonly #tls: TlsOptions | undefined

  /**
   * Takes the virtual host from the URL of the bus, but not the user: a management URL without one uses `guest`,
   * RabbitMQ's default. So the password of the bus never goes to another address, possibly unencrypted.
   */
  constructor(url: string, busUrl: URL, tls?: TlsOptions) {
    this.#url = monitoringUrl(url, 'managementUrl')
    if (this.#url.username === '') this.#url.username = this.#url.password = 'guest'
    this.#vhost = busUrl.pathname.slice(1) || encodeURIComponent('/')
    this.#tls = tls
  }

  /** Reads a queue's properties; `undefined` if the queue does not exist. */
  queue(name: string): Promise<QueueFacts | undefined> {
    return this.#get(`queues/${this.#vhost}/${encodeURIComponent(name)}`)
  }

  /** Lists the queues that an exchange feeds with one type of event, and all failed queues. */
  async queues(exchange: string): Promise<FoundQueue[]> {
    const path = `exchanges/${this.#vhost}/${encodeURIComponent(exchange)}/bindings/source`
    const bindings = (await this.#get<Binding[]>(path)) ?? []
    const all = (await this.#get<{ readonly name: string }[]>(`queues/${this.#vhost}?columns=name`)) ?? []
    const failed = all.filter(({ name }) => isFailedQueue(name))
    return [
      ...bindings
        .filter(({ destination_type, routing_key }) => destination_type === 'queue' && !/[*#]/.test(routing_key))
        .map(({ destination, routing_key }) => ({ name: destination, type: routing_key })),
      ...failed.map(({ name }) => ({ name, type: undefined })),
    ]
  }

  /** Whether an exchange sends events of a type to a queue. */
  async isBound(exchange: string, queue: string, type: string): Promise<boolean> {
    const path = `bindings/${this.#vhost}/e/${encodeURIComponent(exchange)}/q/${encodeURIComponent(queue)}`
    const bindings = (await this.#get<Binding[]>(path)) ?? []
    return bindings.some(({ routing_key }) => routing_key === type)
  }

  async #get<T>(path: string): Promise<T | undefined> {
    const url = new URL(`api/${path}`, this.#url)
    try {
      return await readJson<T>(url, this.#tls)
    } catch (cause) {
      throw new BusUnavailableError(`the management of RabbitMQ at ${url.host}`, { cause })
    }
  }
}
