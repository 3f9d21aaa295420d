import { OptionError, RateLimitedError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { unwatchAbort, watchAbort } from '../time/index.js'
import { namedInstances } from './named-instances.js'

/** Limits of a bulkhead. @inline */
export interface BulkheadOptions {
  /** How many functions may run at once. */
  readonly concurrency: number
  /** How many more may wait for a slot. Default 0. */
  readonly queue?: number | undefined
}

/** Thrown when all slots of a bulkhead and its queue are full. Outer layers treat it as a rate limit. */
export class BulkheadFullError extends RateLimitedError {
  static {
    BulkheadFullError.prototype.name = 'BulkheadFullError'
  }
  /** The name of the bulkhead. */
  readonly bulkhead: string

  constructor(bulkhead: string, { concurrency, queue = 0 }: BulkheadOptions) {
    super(`Bulkhead '${bulkhead}' is full: not called. ${concurrency} are running and ${queue} are waiting.`, {
      code: 'bulkhead_full',
    })
    this.bulkhead = bulkhead
  }
}

/**
 * Limits how many calls to a service run at once, so that a slow service cannot exhaust the sockets and memory of its
 * caller. Put it around each attempt, so that a call holds no slot while it waits for its next attempt.
 *
 * ```ts
 * const reports = bulkhead('reports', { concurrency: 10, queue: 100 })
 * await retry(({ signal }) => reports.run(() => load(signal), { signal }), { timeout: '5s' })
 * ```
 */
export class Bulkhead {
  /** Its name, for errors and metrics. */
  readonly name: string
  readonly #options: BulkheadOptions
  /** In the order of their arrival. */
  readonly #waiting = new Set<() => void>()
  #running = 0

  constructor(name: string, options: BulkheadOptions) {
    checkOptions('A bulkhead', options, BULKHEAD_OPTIONS)
    const { concurrency, queue = 0 } = options
    if (!(Number.isInteger(concurrency) && concurrency > 0))
      throw new OptionError(
        'concurrency',
        `Bulkhead: 'concurrency' must be a whole number above 0, got ${concurrency}.`,
      )
    if (!(Number.isInteger(queue) && queue >= 0))
      throw new OptionError('queue', `Bulkhead: 'queue' must be a whole number, 0 or more, got ${queue}.`)
    this.name = name
    this.#options = { concurrency, queue }
  }

  /** How many functions are running. */
  get running(): number {
    return this.#running
  }

  /** How many are waiting for a slot. */
  get waiting(): number {
    return this.#waiting.size
  }

  /**
   * Calls the function as soon as a slot is free, in order of arrival. Rejects with a `BulkheadFullError` if the queue
   * is full, and with the signal's reason if the signal aborts before the function was called.
   */
  async run<T>(
    fn: () => T | PromiseLike<T>,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    signal?.throwIfAborted()
    const { concurrency, queue = 0 } = this.#options
    if (this.#running < concurrency) this.#running++
    else if (this.#waiting.size < queue) await this.#turn(signal)
    else throw new BulkheadFullError(this.name, this.#options)
    try {
      return await fn()
    } finally {
      this.#leave()
    }
  }

  /** Resolves once somebody hands over a place. */
  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leaveQueue = () => {
        this.#waiting.delete(start)
        if (signal) unwatchAbort(signal, onAbort)
      }
      const start = () => {
        leaveQueue()
        resolve()
      }
      const onAbort = {
        wake: () => {
          leaveQueue()
          reject(signal?.reason)
        },
      }
      this.#waiting.add(start)
      if (signal) watchAbort(signal, onAbort)
    })
  }

  /** Hands the place over to the next in the queue, or gives it up. */
  #leave(): void {
    const [next] = this.#waiting
    if (next) next()
    else this.#running--
  }
}

const BULKHEAD_OPTIONS: KnownOptions<BulkheadOptions> = { concurrency: '', queue: '' }

/** Returns the bulkhead with this name. All calls that name it share it; the first has to set its options. */
export const bulkhead: (name: string, options?: BulkheadOptions) => Bulkhead = /* @__PURE__ */ namedInstances(
  'bulkhead',
  (name: string, options?: BulkheadOptions) => {
    if (options !== undefined) return new Bulkhead(name, options)
    throw new OptionError(
      'concurrency',
      `There is no bulkhead '${name}' yet. Give it a 'concurrency' where it is first named.`,
    )
  },
)
