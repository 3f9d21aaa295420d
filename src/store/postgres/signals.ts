import type { Client } from 'pg'

/** Without a word from anyone, watchers look so often by themselves. */
const POLL_MS = 2000

/** Not every commit is told to other processes: in so long, one word is enough. */
const QUIET_MS = 10

/** How a store listens and speaks to the other processes on the same schema. */
export interface Wire {
  readonly channel: string
  /** Makes a connection to listen on, whose errors somebody hears; absent if there is to be none. */
  readonly connect: (() => Promise<Client>) | undefined
  /** Tells all who listen on the channel. */
  readonly notify: (channel: string, payload: string) => Promise<unknown>
}

/**
 * Tells watchers, in this process and in others, that there may be something to claim. What other processes say comes as
 * notifications on one connection, made when the first watcher comes. While that is down nothing is lost, only slower: at
 * every poll watchers look by themselves, and the connection is made anew.
 */
export class Signals {
  readonly channel: string
  readonly #wire: Wire
  readonly #watchers = new Set<() => void>()
  /** Our own words come back to us. */
  readonly #name = crypto.randomUUID()
  #client: Client | undefined
  #connecting: Promise<void> | undefined
  #poll: NodeJS.Timeout | undefined
  #quiet: NodeJS.Timeout | undefined
  #isToBeSaid = false

  constructor(wire: Wire) {
    this.channel = wire.channel
    this.#wire = wire
  }

  add(callback: () => void): () => void {
    // Each has an entry of its own, even if one callback is given twice.
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

  /** There may be something to claim: tells watchers here at once, and others soon. */
  ring(): void {
    this.#tellHere()
    this.#isToBeSaid = true
    if (this.#quiet === undefined) this.#say()
  }

  /** Says no more, and hears no more. */
  async stop(): Promise<void> {
    this.#watchers.clear()
    clearTimeout(this.#quiet)
    this.#hangUp()
    await this.#connecting
  }

  #tellHere(): void {
    for (const watcher of this.#watchers) watcher()
  }

  /** What was rung meanwhile is said in one, when it has been quiet for a while. */
  #say(): void {
    this.#isToBeSaid = false
    // Who does not hear it looks by itself.
    this.#wire.notify(this.channel, this.#name).catch(() => {})
    this.#quiet = setTimeout(() => {
      this.#quiet = undefined
      if (this.#isToBeSaid) this.#say()
    }, QUIET_MS).unref()
  }

  #look(): void {
    this.#tellHere()
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
        if (payload !== this.#name) this.#tellHere()
      })
      this.#client = client
      await client.query(`LISTEN ${this.channel}`)
      if (this.#watchers.size === 0) this.#hangUp()
      // What was said before it listened.
      else this.#tellHere()
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
