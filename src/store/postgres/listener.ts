import type { Client } from 'pg'

/** How often subscribers look by themselves, without any notification. */
const POLL_MS = 2000

/** The connection stays open for this long after its last subscriber, for the next one. */
const LINGER_MS = 5000

/** Runs a statement. */
interface Queries {
  queryAlone(text: string, values: unknown[]): Promise<unknown>
}

/** Takes the payload of a notification; without one, notifications may have been missed. */
export type Hear = (payload?: string) => void

/** Qualified: on its connection, a stranger's `unnest(text[])` would fit better. */
const NOTIFY = 'SELECT pg_catalog.pg_notify($1::text, payload) FROM pg_catalog.unnest($2::text[]) AS payload'

/**
 * Listens on channels, on one connection, opened for the first subscriber. While it is down nothing is lost, only slower:
 * subscribers are called at every poll, and the connection is opened again.
 *
 * It also notifies, while it is connected. On a connection of the pool, a notification would keep the next settlement from
 * the connection that has just settled and knows its plans: worse than slow, since every connection plans for itself.
 */
export class Listener {
  /** Opens a connection, with a listener for its errors. `undefined`: do not listen. */
  readonly #open: (() => Promise<Client>) | undefined
  readonly #subscribers = new Map<string, Set<Hear>>()
  #client: Client | undefined
  /** The last statement on the connection. The next one waits for it, as the driver asks for. */
  #last: Promise<unknown> = Promise.resolve()
  #connecting: Promise<void> | undefined
  #poll: NodeJS.Timeout | undefined
  #linger: NodeJS.Timeout | undefined

  constructor(open: (() => Promise<Client>) | undefined) {
    this.#open = open
  }

  /** Subscribes to a channel. Returns a function that ends the subscription. */
  on(channel: string, hear: Hear): () => void {
    const subscribers = this.#subscribers.get(channel) ?? new Set()
    const isNew = subscribers.size === 0
    this.#subscribers.set(channel, subscribers.add(hear))
    clearTimeout(this.#linger)
    if (this.#client !== undefined) keepAlive(this.#client, true)
    this.#poll ??= setInterval(() => this.#look(), POLL_MS)
    if (this.#client === undefined) this.#connect()
    else if (isNew) this.#listen(this.#client, [channel]).catch(() => {})
    return () => {
      if (!subscribers.delete(hear) || subscribers.size > 0) return
      this.#subscribers.delete(channel)
      if (this.#subscribers.size === 0) this.#rest()
    }
  }

  /** Sends a notification for each payload, on its own connection or on that of `others` while it has none. */
  notify(channel: string, payloads: readonly string[], others: Queries): Promise<unknown> {
    const values = [channel, payloads]
    return this.#client === undefined ? others.queryAlone(NOTIFY, values) : this.#query(this.#client, NOTIFY, values)
  }

  /** Stops listening. */
  async stop(): Promise<void> {
    this.#subscribers.clear()
    this.#hangUp()
    await this.#connecting
  }

  #look(): void {
    for (const channel of this.#subscribers.keys()) this.#tell(channel)
    this.#connect()
  }

  #tell(channel: string, payload?: string): void {
    for (const hear of this.#subscribers.get(channel) ?? []) hear(payload)
  }

  #connect(): void {
    if (this.#client === undefined && this.#open !== undefined) this.#connecting ??= this.#connected(this.#open)
  }

  async #connected(open: () => Promise<Client>): Promise<void> {
    try {
      const client = await open()
      client.on('end', () => this.#lost(client))
      client.on('notification', ({ channel, payload }) => this.#tell(channel, payload))
      this.#client = client
      this.#last = Promise.resolve()
      await this.#listen(client, [...this.#subscribers.keys()])
      if (this.#subscribers.size === 0) this.#hangUp()
    } catch {
      // The next poll tries again.
      if (this.#client !== undefined) this.#lost(this.#client)
    } finally {
      this.#connecting = undefined
    }
  }

  async #listen(client: Client, channels: readonly string[]): Promise<void> {
    // A notification that a crash of the server loses has nobody left who listens: its commit need not wait for the disk.
    const statements = ['SET synchronous_commit = off', ...channels.map(channel => `LISTEN ${channel}`)]
    await this.#query(client, statements.join(';'))
    // For notifications that were sent before it listened.
    for (const channel of channels) this.#tell(channel)
  }

  #query(client: Client, text: string, values?: unknown[]): Promise<unknown> {
    const answer = this.#last.then(() => client.query(text, values))
    // It listens for nothing, or may never answer: the next poll opens another.
    this.#last = answer.catch(() => this.#lost(client))
    return answer
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    client.end().catch(() => {})
  }

  #rest(): void {
    clearInterval(this.#poll)
    this.#poll = undefined
    this.#linger = setTimeout(() => this.#hangUp(), LINGER_MS).unref()
    if (this.#client !== undefined) keepAlive(this.#client, false)
  }

  #hangUp(): void {
    clearInterval(this.#poll)
    clearTimeout(this.#linger)
    this.#poll = undefined
    if (this.#client !== undefined) this.#lost(this.#client)
  }
}

/** Whether an open connection keeps the process alive. The types of the driver lack these methods. */
function keepAlive(client: Client & { ref?: () => void; unref?: () => void }, isKept: boolean): void {
  if (isKept) client.ref?.()
  else client.unref?.()
}
