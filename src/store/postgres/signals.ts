import type { Listener } from './listener.js'

/** At most one notification is sent in this time, however many commits there are. */
const QUIET_MS = 10

/** How a store exchanges notifications with other processes on the same schema. */
export interface Wire {
  /** The channel on which new work is told. The names of other channels begin with it. */
  readonly channel: string
  readonly listener: Listener
  /** Notifies everybody who listens on the channel, once for each payload. */
  readonly notify: (channel: string, payloads: readonly string[]) => Promise<unknown>
}

/** Tells watchers, in this process and in others, that there may be something to claim. */
export class Signals {
  readonly channel: string
  readonly #wire: Wire
  readonly #watchers = new Set<() => void>()
  /** The payload of our own notifications, which come back to us. */
  readonly #name = crypto.randomUUID()
  #unsubscribe: (() => void) | undefined
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
    this.#unsubscribe ??= this.#wire.listener.on(this.channel, payload => {
      if (payload !== this.#name) this.#ringHere()
    })
    return () => {
      this.#watchers.delete(watcher)
      if (this.#watchers.size > 0) return
      this.#unsubscribe?.()
      this.#unsubscribe = undefined
    }
  }

  /** Tells watchers here at once, and those in other processes soon, that there may be something to claim. */
  ring(): void {
    this.#ringHere()
    this.#isPending = true
    if (this.#quiet === undefined) this.#notify()
  }

  /** Stops notifying. */
  stop(): void {
    this.#watchers.clear()
    clearTimeout(this.#quiet)
  }

  #ringHere(): void {
    for (const watcher of this.#watchers) watcher()
  }

  /** Notifies other processes. Rings in the quiet time that follows are sent as one, at its end. */
  #notify(): void {
    this.#isPending = false
    // A process that misses it looks at its next poll.
    this.#wire.notify(this.channel, [this.#name]).catch(() => {})
    this.#quiet = setTimeout(() => {
      this.#quiet = undefined
      if (this.#isPending) this.#notify()
    }, QUIET_MS).unref()
  }
}
