/** The callbacks of `watchEnd`, by the id of the task that each waits for. */
export class EndWatchers {
  readonly #callbacks = new Map<string, Set<() => void>>()

  /** How many tasks are waited for. */
  get size(): number {
    return this.#callbacks.size
  }

  /** The tasks that are waited for. */
  ids(): string[] {
    return [...this.#callbacks.keys()]
  }

  has(id: string): boolean {
    return this.#callbacks.has(id)
  }

  add(id: string, callback: () => void): () => void {
    // The same callback given twice is two watchers.
    const call = () => callback()
    const callbacks = this.#callbacks.get(id) ?? new Set()
    this.#callbacks.set(id, callbacks.add(call))
    return () => {
      callbacks.delete(call)
      if (callbacks.size === 0 && this.#callbacks.get(id) === callbacks) this.#callbacks.delete(id)
    }
  }

  /** Calls back for a task that may have ended, after the code that is running now. */
  call(id: string): void {
    for (const call of this.#callbacks.get(id) ?? []) queueMicrotask(call)
  }

  clear(): void {
    this.#callbacks.clear()
  }
}
