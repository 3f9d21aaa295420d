import type { Wire } from './signals.js'

/** Notifications are sent at most this often; ids of the time between share one. */
const QUIET_MS = 10

/** PostgreSQL takes payloads of less than 8000 bytes. */
const MAX_BYTES = 7500

/** Exchanges the ids of tasks with other processes on a channel. */
export class IdNotices {
  readonly #wire: Wire
  readonly #channel: string
  /** Tells our own notifications, which come back to us. */
  readonly #name = crypto.randomUUID()
  #pending = new Set<string>()
  #quiet: NodeJS.Timeout | undefined

  constructor(wire: Wire, channel: string) {
    this.#wire = wire
    this.#channel = channel
  }

  /** Calls back with the ids that another process sends; without any when notifications may have been missed. */
  on(hear: (ids?: readonly string[]) => void): () => void {
    return this.#wire.listener.on(this.#channel, payload => {
      if (payload === undefined) return hear()
      const [name, ...ids] = JSON.parse(payload) as string[]
      if (name !== this.#name) hear(ids)
    })
  }

  /** Sends an id to all other processes that listen. Soon, and together with others. */
  send(id: string): void {
    this.#pending.add(id)
    this.#quiet ??= setTimeout(() => this.#flush(), 0)
  }

  stop(): void {
    clearTimeout(this.#quiet)
  }

  #flush(): void {
    this.#quiet = undefined
    if (this.#pending.size === 0) return
    const payloads = batches(this.#pending).map(ids => JSON.stringify([this.#name, ...ids]))
    this.#pending = new Set()
    // A process that misses it looks by itself.
    this.#wire.notify(this.#channel, payloads).catch(() => {})
    this.#quiet = setTimeout(() => this.#flush(), QUIET_MS)
  }
}

/** Puts ids into batches that fit into a payload each. */
function batches(ids: Iterable<string>): string[][] {
  const all: string[][] = []
  let room = 0
  for (const id of ids) {
    const bytes = Buffer.byteLength(JSON.stringify(id)) + 1
    if (room < bytes) {
      all.push([])
      room = MAX_BYTES
    }
    all.at(-1)?.push(id)
    room -= bytes
  }
  return all
}
