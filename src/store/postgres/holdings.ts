import type { Claim } from '../store.js'

/** What a worker was given, as far as this store knows. */
export interface Holding {
  readonly tokens: Set<string>
  /** The last claim that anybody had made when one was answered: what was claimed until then, and is not here, nobody has. */
  asOf: number
  /** Claims whose answer has not come yet. */
  claims: number
}

/**
 * Which tasks each worker was given. A claim that is committed, and whose answer is lost with the connection, leaves tasks
 * that are the worker's by the book and that nobody runs, for as long as the worker lives. With every sign of life a
 * worker says what it knows of, and the rest goes back.
 */
export class Holdings {
  readonly #holdings = new Map<string, Holding>()

  /** Notes what a claim gives to a worker. */
  async claim(worker: string, ask: () => Promise<{ readonly claim: Claim; readonly asOf: number }>): Promise<Claim> {
    const holding = this.#of(worker)
    holding.claims++
    try {
      const { claim, asOf } = await ask()
      for (const { token } of claim.tasks) holding.tokens.add(token)
      if (holding.claims === 1) holding.asOf = asOf
      return claim
    } finally {
      holding.claims--
    }
  }

  /** What a worker was given; `undefined` if it never claimed here. */
  get(worker: string): Holding | undefined {
    return this.#holdings.get(worker)
  }

  /** Forgets tasks that are nobody's any more. */
  settled(tokens: readonly string[]): void {
    for (const { tokens: held } of this.#holdings.values()) for (const token of tokens) held.delete(token)
  }

  left(worker: string): void {
    this.#holdings.delete(worker)
  }

  #of(worker: string): Holding {
    let holding = this.#holdings.get(worker)
    if (holding === undefined) {
      holding = { tokens: new Set(), asOf: 0, claims: 0 }
      this.#holdings.set(worker, holding)
    }
    return holding
  }
}
