/** The items of one call, and its promise. */
interface Job<Item, Result> {
  readonly items: readonly Item[]
  readonly resolve: (results: Result[]) => void
  readonly reject: (error: unknown) => void
}

/** The most items to send at once, unless a single call brings more. */
const MAX_ITEMS = 5000

/**
 * Sends calls that are made together in one batch, and those that arrive while a batch is under way in one batch after it,
 * since a commit and a round trip cost more than most calls. A lone call waits for nothing. A batch that fails is sent again
 * call by call, so that each fails alone, unless `isOutage` says that this cannot help.
 */
export class Batcher<Item, Result> {
  readonly #send: (items: readonly Item[]) => Promise<Result[]>
  readonly #isOutage: (error: unknown) => boolean
  readonly #queue: Job<Item, Result>[] = []
  #flushing: Promise<void> | undefined

  constructor(send: (items: readonly Item[]) => Promise<Result[]>, isOutage: (error: unknown) => boolean) {
    this.#send = send
    this.#isOutage = isOutage
  }

  add(items: readonly Item[]): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ items, resolve, reject })
      this.#flushing ??= this.#flush()
    })
  }

  /** Resolves when all calls under way have ended. */
  async idle(): Promise<void> {
    await this.#flushing
  }

  async #flush(): Promise<void> {
    // Calls that were made together arrive one after another before this goes on.
    await undefined
    while (this.#queue.length > 0) await this.#sendTogether(this.#next())
    this.#flushing = undefined
  }

  #next(): Job<Item, Result>[] {
    let items = 0
    const past = this.#queue.findIndex(job => {
      items += job.items.length
      return items > MAX_ITEMS
    })
    return this.#queue.splice(0, past === -1 ? this.#queue.length : Math.max(1, past))
  }

  async #sendTogether(jobs: Job<Item, Result>[]): Promise<void> {
    try {
      const [lone] = jobs
      if (jobs.length === 1 && lone !== undefined) return lone.resolve(await this.#send(lone.items))
      const results = await this.#send(jobs.flatMap(({ items }) => items))
      let first = 0
      for (const { items, resolve } of jobs) {
        resolve(results.slice(first, first + items.length))
        first += items.length
      }
    } catch (error) {
      if (jobs.length > 1 && !this.#isOutage(error)) for (const job of jobs) await this.#sendTogether([job])
      else for (const { reject } of jobs) reject(error)
    }
  }
}
