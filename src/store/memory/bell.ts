import { EndWatchers } from '../rules/end-watchers.js'
import type { Bell } from '../verbs/base-store.js'

/** Calls those who watch a memory store: once for all changes of one turn, after the verb that made them. */
export class MemoryBell implements Bell {
  readonly #watchers = new Set<{ readonly callback: () => void }>()
  readonly #ends = new EndWatchers()
  #isRinging = false

  watch(callback: () => void): () => void {
    // The same callback given twice is two watchers.
    const watcher = { callback }
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  watchEnd(id: string, callback: () => void): () => void {
    return this.#ends.add(id, callback)
  }

  ring(): void {
    if (this.#isRinging) return
    this.#isRinging = true
    queueMicrotask(() => {
      this.#isRinging = false
      for (const { callback } of this.#watchers) callback()
    })
  }

  ended(tasks: readonly { readonly id: string }[]): void {
    if (this.#ends.size > 0) for (const { id } of tasks) this.#ends.call(id)
  }

  clear(): void {
    this.#watchers.clear()
    this.#ends.clear()
  }
}
