/** The callbacks of `watch`, called once for all changes of one turn, after the verb that made them. */
export class MemoryWatchers {
  readonly #watchers = new Set<{ readonly callback: () => void }>()
  #isRinging = false

  add(callback: () => void): () => void {
    // The same callback given twice is two watchers.
    const watcher = { callback }
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  ring(): void {
    if (this.#isRinging) return
    this.#isRinging = true
    queueMicrotask(() => {
      this.#isRinging = false
      for (const { callback } of this.#watchers) callback()
    })
  }

  clear(): void {
    this.#watchers.clear()
  }
}
