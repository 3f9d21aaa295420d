import { circuitBreaker, FinalError, HttpError, retry, retryBudget, type Sink } from 'redrive'

/** A price as the service for prices gives it. */
export interface Price {
  readonly product: number
  readonly cents: number
}

/** Thrown for a product that has no price. Asking again will not help. */
export class UnknownProductError extends FinalError {}

/** Spares the service once three fifths of at least twenty attempts have failed. */
export const breaker = circuitBreaker('prices', { failureRate: 0.6, minimumCalls: 20, openFor: '1s' })

/** Allows five retries at once, and then one retry per ten calls. */
const budget = retryBudget('prices', { ratio: 0.1, minPerSecond: 0, max: 5 })

const policy = { attempts: 3, timeout: '1s', backoff: { base: '20ms', max: '200ms' } } as const

/** A client of the service for prices. */
export class PriceClient {
  readonly #url: string
  readonly #sink: Sink

  constructor(url: string, sink: Sink) {
    this.#url = url
    this.#sink = sink
  }

  /** The price of a product. The signal is that of the request which asks for it. */
  async priceOf(product: number, signal: AbortSignal): Promise<Price> {
    return retry(attempt => this.#load(product, attempt.signal), policy, {
      signal,
      category: 'PRICES',
      deadline: '2s',
      breaker,
      budget,
      sink: this.#sink,
    })
  }

  /** One attempt. It includes the body, so that the timeout and the deadline hold for a service that stalls in there. */
  async #load(product: number, signal: AbortSignal): Promise<Price> {
    const response = await fetch(`${this.#url}/prices/${product}`, { signal })
    if (response.status === 404) throw new UnknownProductError(`There is no product ${product}.`)
    if (!response.ok) throw new HttpError(response)
    return (await response.json()) as Price
  }
}
