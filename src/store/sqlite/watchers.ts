import type { Connection } from './driver.js'

/** How often a watched store looks for changes of other processes. One look takes a few microseconds. */
const POLL_MS = 25

/** Calls watchers when there may be something new: at once for changes of this process, soon for those of others. */
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
    // The same callback given twice is two watchers.
    const call = () => callback()
    if (this.#callbacks.size === 0) this.#start()
    this.#callbacks.add(call)
    return () => {
      this.#callbacks.delete(call)
      if (this.#callbacks.size === 0) this.stop()
    }
  }

  /** Calls the watchers after the code that is running now, once for any number of changes. */
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
    // Polling must not keep the process alive.
    this.#timer.unref()
  }

  /** Changes whenever another connection has committed. */
  #look(): number | undefined {
    try {
      return this.#dataVersion.get()
    } catch {
      // The file is locked at this moment. The next look will tell.
      return this.#seen
    }
  }
}
