import type { Client } from 'pg'

/** How often watchers look by themselves, without any notification. */
const POLL_MS = 2000

/** At most one notification is sent in this time, however many commits there are. */
const QUIET_MS = 10

/** How a store exchanges notifications with other processes on the same schema. */
export interface Wire {
  readonly channel: string
  /** Opens a connection to listen on, with a listener for its errors. `undefined`: do not listen. */
  readonly connect: (() => Promise<Client>) | undefined
  /** Notifies everybody who listens on the channel. */
  readonly notify: (channel: string, payload: string) => Promise<unknown>
}

/**
 * Tells watchers, in this process and in others, that there may be something to claim. Notifications of other processes
 * arrive on one connection, opened for the first watcher. While it is down nothing is lost, only slower: watchers look at
 * every poll, and the connection is opened again.
 */
export class Signals {
  readonly channel: string
  readonly #wire: Wire
  readonly #watchers = new Set<() => void>()
  /** The payload of our own notifications, which come back to us. */
  readonly #name = crypto.randomUUID()
  #client: Client | undefined
  #connecting: Promise<void> | undefined
  #poll: NodeJS.Timeout | undefined
  #quiet: NodeJS.Timeout | undefined
  #isPending = false

  constructor(wire: Wire) {
    this.channel = wire.channel
    this.#wire = wire
  }

  add(callback: () => void): () => void {
    // A wrapper for each, since one callback may be added twice.
    const watcher = () => callback()
    this.#watchers.add(watcher)
    if (this.#poll === undefined) {
      this.#poll = setInterval(() => this.#look(), POLL_MS)
      this.#connect()
    }
    return () => {
      this.#watchers.delete(watcher)
      if (this.#watchers.size === 0) this.#hangUp()
    }
  }

  /** Tells watchers here at once, and those in other processes soon, that there may be something to claim. */
  ring(): void {
    this.#ringHere()
    this.#isPending = true
    if (this.#quiet === undefined) this.#notify()
  }

  /** Stops listening and notifying. */
  async stop(): Promise<void> {
    this.#watchers.clear()
    clearTimeout(this.#quiet)
    this.#hangUp()
    await this.#connecting
  }

  #ringHere(): void {
    for (const watcher of this.#watchers) watcher()
  }

  /** Notifies other processes. Rings in the quiet time that follows are sent as one, at its end. */
  #notify(): void {
    this.#isPending = false
    // A process that misses it looks at its next poll.
    this.#wire.notify(this.channel, this.#name).catch(() => {})
    this.#quiet = setTimeout(() => {
      this.#quiet = undefined
      if (this.#isPending) this.#notify()
    }, QUIET_MS).unref()
  }

  #look(): void {
    this.#ringHere()
    this.#connect()
  }

  #connect(): void {
    const { connect } = this.#wire
    if (this.#client === undefined && connect !== undefined) this.#connecting ??= this.#listen(connect)
  }

  async #listen(connect: () => Promise<Client>): Promise<void> {
    try {
      const client = await connect()
      client.on('end', () => this.#lost(client))
      client.on('notification', ({ payload }) => {
        if (payload !== this.#name) this.#ringHere()
      })
      this.#client = client
      await client.query(`LISTEN ${this.channel}`)
      if (this.#watchers.size === 0) this.#hangUp()
      // For notifications that were sent before it listened.
      else this.#ringHere()
    } catch {
      // The next poll tries again.
      if (this.#client !== undefined) this.#lost(this.#client)
    } finally {
      this.#connecting = undefined
    }
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    client.end().catch(() => {})
  }

  #hangUp(): void {
    clearInterval(this.#poll)
    this.#poll = undefined
    if (this.#client !== undefined) this.#lost(this.#client)
  }
}
