import type { Claim, Settled, Settlement } from '../contract/claim.js'

/** The tasks that a worker was given, as far as this store knows. */
export interface Holding {
  readonly tokens: Set<string>
  /** The last claim of anybody when a claim was answered. This worker's claims up to then are known here, or lost. */
  asOf: number
  /** The number of claims whose answer is still on its way. */
  claims: number
}

/**
 * The tasks that each worker was given. If a claim is committed and its answer is lost with the connection, its tasks belong
 * to the worker and nobody runs them, for as long as the worker lives. So every heartbeat tells which claims the worker
 * knows of, and the tasks of all others go back.
 */
export class Holdings {
  readonly #holdings = new Map<string, Holding>()

  /** Notes the tasks that a claim gives to a worker. */
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

  /** The tasks of a worker; `undefined` if it never claimed here. */
  get(worker: string): Holding | undefined {
    return this.#holdings.get(worker)
  }

  /** Forgets tasks that were settled, and notes the new tokens of those that were kept. */
  settled(settlements: readonly Settlement[], answers: readonly Settled[]): void {
    for (const { tokens } of this.#holdings.values()) {
      for (const [n, { token }] of settlements.entries()) {
        const answer = answers[n]
        if (answer?.result === 'locked') continue
        if (tokens.delete(token) && answer?.result === 'kept') tokens.add(answer.token)
      }
    }
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
