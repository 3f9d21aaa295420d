import type { PoolClient } from 'pg'

/** A connection that is lent to one caller. It goes back to the pool, or is destroyed if it can be of no more use. */
export class Loan {
  readonly client: PoolClient
  /** Rejects if the connection breaks: the caller may be waiting for something else. */
  readonly broken: Promise<never>
  /** Resolves when it has ended. */
  readonly returned: Promise<void>
  /** Whether an answer may still be on its way. */
  isDamaged = false
  #isKept = false
  #hasEnded = false
  #reject: (error: unknown) => void = () => {}
  #resolve: () => void = () => {}
  /** A broken connection rejects its query and emits an event, as early as it can. */
  readonly #onError: (error: unknown) => void

  /** `explain` translates the driver's error. */
  constructor(client: PoolClient, explain: (error: unknown) => unknown) {
    this.client = client
    this.#onError = error => this.break(explain(error))
    this.broken = new Promise((_, reject) => {
      this.#reject = reject
    })
    this.broken.catch(() => {})
    this.returned = new Promise(resolve => {
      this.#resolve = resolve
    })
    client.on('error', this.#onError)
  }

  /** The connection has been rolled back, and may be used again after an error. */
  keep(): void {
    this.#isKept = true
  }

  /** Destroys the connection. */
  break(error: unknown): void {
    this.isDamaged = true
    this.#isKept = false
    this.#reject(error)
    this.end()
  }

  /** Gives the connection back, once. */
  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    // A connection that is destroyed may still emit errors.
    this.client.on('error', ignore).off('error', this.#onError)
    const isDestroyed = this.isDamaged && !this.#isKept
    if (!isDestroyed) this.client.off('error', ignore)
    this.client.release(isDestroyed)
    this.#resolve()
  }
}

const ignore = () => {}
