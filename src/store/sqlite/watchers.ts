import { EndWatchers } from '../rules/end-watchers.js'
import { State } from '../rules/task-state.js'
import type { Bell } from '../verbs/base-store.js'
import type { Connection } from './driver.js'

/** How often a watched store looks for changes of other processes. One look takes a few microseconds. */
const POLL_MS = 25

/** Watched tasks are checked at every 80th look, whether or not the file has changed. */
const LOOKS_PER_CHECK = 80

/**
 * Calls watchers when there may be something new to claim, or when a task that they wait for may have ended: at once for
 * changes of this process, soon for those of others.
 */
export class Watchers implements Bell {
  readonly #callbacks = new Set<() => void>()
  readonly #ends = new EndWatchers()
  readonly #dataVersion
  readonly #endedOf
  #seen: number | undefined
  #looks = 0
  #timer: NodeJS.Timeout | undefined
  #isRinging = false

  constructor(db: Connection) {
    this.#dataVersion = db.prepare<[], number>('PRAGMA data_version').pluck()
    this.#endedOf = db
      .prepare<[string], string>(/* sql */ `
        SELECT wanted.value FROM json_each(?) AS wanted
        WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.id = wanted.value AND task.state <= ${State.running})
      `)
      .pluck()
  }

  watch(callback: () => void): () => void {
    // The same callback given twice is two watchers.
    const call = () => callback()
    this.#callbacks.add(call)
    this.#begin()
    return () => {
      this.#callbacks.delete(call)
      this.#rest()
    }
  }

  /** Calls back when the task may have ended. */
  watchEnd(id: string, callback: () => void): () => void {
    const remove = this.#ends.add(id, callback)
    this.#begin()
    return () => {
      remove()
      this.#rest()
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

  /** Tells whoever waits for one of these tasks that it may have ended. */
  ended(tasks: readonly { readonly id: string }[]): void {
    if (this.#ends.size > 0) for (const { id } of tasks) this.#ends.call(id)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#callbacks.clear()
    this.#ends.clear()
  }

  #begin(): void {
    if (this.#timer === undefined) {
      this.#seen = this.#look()
      this.#timer = setInterval(() => this.#poll(), POLL_MS)
    }
    this.#keepAlive(this.#timer)
  }

  #rest(): void {
    if (this.#callbacks.size === 0 && this.#ends.size === 0) this.stop()
    else if (this.#timer !== undefined) this.#keepAlive(this.#timer)
  }

  /** Looking for work must not keep the process alive; waiting for the end of a task must. */
  #keepAlive(timer: NodeJS.Timeout): void {
    if (this.#ends.size > 0) timer.ref()
    else timer.unref()
  }

  #poll(): void {
    const version = this.#look()
    const isChanged = version !== this.#seen
    this.#seen = version
    this.#looks++
    if (isChanged) this.ring()
    if (this.#ends.size > 0 && (isChanged || this.#looks % LOOKS_PER_CHECK === 0)) this.#checkEnds()
  }

  #checkEnds(): void {
    try {
      for (const id of this.#endedOf.all(JSON.stringify(this.#ends.ids()))) this.#ends.call(id)
    } catch {
      // The file is locked at this moment: look again.
      this.#seen = undefined
    }
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
