import type { Connection } from './driver.js'

/** How often somebody who watches looks for the work of other processes. One look takes some microseconds. */
const POLL_MS = 25

/** Tells who watches that there may be something new: at once of this process's changes, soon of those of others. */
export class Watchers {
  readonly #callbacks = new Set<() => void>()
  readonly #dataVersion
  #seen: number | undefined
  #timer: NodeJS.Timeout | undefined
  #isRinging = false

  constructor(db: Connection) {
    this.#dataVersion = db.prepare<[], number>('PRAGMA data_version').pluck()
  }

  add(callback: () => void): () => void {
    // A callback that is given twice is two who watch.
    const call = () => callback()
    if (this.#callbacks.size === 0) this.#start()
    this.#callbacks.add(call)
    return () => {
      this.#callbacks.delete(call)
      if (this.#callbacks.size === 0) this.stop()
    }
  }

  /** Something changed: calls back after the code that runs now, once however much changed. */
  ring(): void {
    if (this.#isRinging || this.#callbacks.size === 0) return
    this.#isRinging = true
    queueMicrotask(() => {
      this.#isRinging = false
      for (const call of this.#callbacks) queueMicrotask(call)
    })
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#callbacks.clear()
  }

  #start(): void {
    this.#seen = this.#look()
    this.#timer = setInterval(() => {
      const version = this.#look()
      if (version === this.#seen) return
      this.#seen = version
      this.ring()
    }, POLL_MS)
    // To wait for others keeps no process alive.
    this.#timer.unref()
  }

  /** Changes whenever another connection has committed. */
  #look(): number | undefined {
    try {
      return this.#dataVersion.get()
    } catch {
      // Locked for this moment: the next look will tell.
      return this.#seen
    }
  }
}
