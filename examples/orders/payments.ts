/** Plays a payment provider: it fails now and then, and charges once per idempotency key. */
export class PaymentProvider {
  /** The amounts charged, by idempotency key. */
  readonly charges = new Map<string, number>()
  /** Orders whose card is declined with 402. */
  readonly declined = new Set<number>()
  requests = 0
  readonly #seen = new Set<number>()

  async charge(order: number, cents: number, idempotencyKey: string, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted()
    this.requests++
    const isFirst = !this.#seen.has(order)
    this.#seen.add(order)
    if (isFirst && order % 3 === 0) throw Object.assign(new Error('Service unavailable'), { status: 503 })
    if (this.declined.has(order)) throw Object.assign(new Error('The card was declined'), { status: 402 })
    this.charges.set(idempotencyKey, cents)
    // An answer may be lost after the card was charged. The retry comes with the same key.
    if (isFirst && order % 7 === 0) throw Object.assign(new Error('Connection reset'), { code: 'ECONNRESET' })
    return `charge-of-${idempotencyKey}`
  }
}
