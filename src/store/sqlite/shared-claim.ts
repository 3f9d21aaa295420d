import type { Cost } from '../contract/task.js'
import { parsedCost, SharedBook } from './shared-book.js'
import type { OpenLaneRow } from './statements/claim.js'
import type { Statements } from './statements.js'

/**
 * The shared limits as a claim goes by them. One that cannot pay for the first task that asks is closed for the rest of
 * the claim, so that cheaper tasks of other lanes do not starve it.
 */
export class SharedClaim {
  readonly #statements: Statements
  readonly #book: SharedBook
  readonly #now: number
  readonly #ids: readonly number[]
  /** Closed limits, and when each may open. */
  #closed: ReadonlyMap<number, number>

  constructor(statements: Statements, now: number) {
    this.#statements = statements
    this.#book = new SharedBook(statements)
    this.#now = now
    const quotas = statements.hasQuotas.get() === 1 ? statements.waitingQuotas.all() : []
    this.#ids = [...statements.sharedIds.all(), ...quotas]
    this.#closed = this.#closedForAll()
  }

  /** The closed limits as a JSON array, as statements take them; NULL: all are open. */
  get closed(): string | null {
    return this.#closed.size === 0 ? null : JSON.stringify([...this.#closed.keys()])
  }

  get closedCount(): number {
    return this.#closed.size
  }

  isClosed({ shared }: Pick<OpenLaneRow, 'shared'>): boolean {
    return shared !== null && this.#closed.has(shared)
  }

  /** Whether a task may start. If not, its limit is closed. */
  canPay({ shared }: Pick<OpenLaneRow, 'shared'>, seq: number): boolean {
    if (shared === null) return true
    const { isOpen, at } = this.#book.opening(shared, this.#costOf(shared, seq), this.#now)
    if (!isOpen) this.#closed = new Map([...this.#closed, [shared, at]])
    return isOpen
  }

  start({ shared }: Pick<OpenLaneRow, 'shared'>, seq: number): void {
    if (shared === null) return
    this.#book.start(shared, this.#costOf(shared, seq), this.#now)
    this.#book.count(shared, 1)
  }

  /** Opens the limits again that were closed for a single task. Returns when the next of them opens with work to do. */
  end(): number {
    const times = [...this.#closed].filter(
      ([id, at]) => at < Infinity && this.#statements.isSharedWaiting.get(id) === 1,
    )
    this.#closed = this.#closedForAll()
    this.#book.write()
    return Math.min(Infinity, ...times.map(([, at]) => at))
  }

  #costOf(shared: number, seq: number): Cost | undefined {
    return this.#book.hasRates(shared) ? parsedCost(this.#statements.cost.get(seq)) : undefined
  }

  #closedForAll(): ReadonlyMap<number, number> {
    const closed = new Map<number, number>()
    for (const id of this.#ids) {
      const { isOpen, at } = this.#book.openingForAny(id, this.#now)
      if (!isOpen) closed.set(id, at)
    }
    return closed
  }
}
