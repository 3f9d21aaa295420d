import { type FoundQueue, isFailedQueue } from '../bus.js'
import { BusUnavailableError } from '../errors.js'
import { readJson } from '../read-json.js'

/** What RabbitMQ's management plugin says of a queue. */
export interface QueueFacts {
  readonly durable: boolean
  readonly type: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly effective_policy_definition?: Readonly<Record<string, unknown>>
}

/** That an exchange sends messages with a routing key somewhere. */
interface Binding {
  readonly destination: string
  readonly destination_type: string
  readonly routing_key: string
}

/** RabbitMQ's HTTP API: it shows what AMQP does not, policies above all. */
export class Management {
  readonly #url: URL
  readonly #authorization: string
  readonly #vhost: string

  /** The virtual host is that of the bus; a url without a user has that of the bus. */
  constructor(url: string, busUrl: string) {
    const bus = new URL(busUrl)
    this.#url = new URL(url)
    const { username, password } = this.#url.username === '' ? bus : this.#url
    const user = `${decodeURIComponent(username) || 'guest'}:${decodeURIComponent(password) || 'guest'}`
    this.#authorization = `Basic ${Buffer.from(user).toString('base64')}`
    this.#vhost = bus.pathname.slice(1) || encodeURIComponent('/')
  }

  /** `undefined`: there is no such queue. */
  queue(name: string): Promise<QueueFacts | undefined> {
    return this.#get(`queues/${this.#vhost}/${encodeURIComponent(name)}`)
  }

  /** The queues that an exchange sends events of one type to, and all failed queues. */
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

  /** Whether an exchange sends a type to a queue. */
  async isBound(exchange: string, queue: string, type: string): Promise<boolean> {
    const path = `bindings/${this.#vhost}/e/${encodeURIComponent(exchange)}/q/${encodeURIComponent(queue)}`
    const bindings = (await this.#get<Binding[]>(path)) ?? []
    return bindings.some(({ routing_key }) => routing_key === type)
  }

  async #get<T>(path: string): Promise<T | undefined> {
    const url = new URL(`api/${path}`, `${this.#url.origin}${this.#url.pathname.replace(/\/?$/, '/')}`)
    try {
      return await readJson<T>(url, { authorization: this.#authorization })
    } catch (cause) {
      throw new BusUnavailableError(`the management of RabbitMQ at ${url.host}`, { cause })
    }
  }
}
