import { auditPlace } from '../cursor.js'
import type { Page, PageRequest } from '../store.js'

/** The audit records of the memory store. */
export class MemoryAuditLog {
  #records: { readonly at: number; readonly record: string }[] = []
  /** Pruned records still count, so that the number of a record never changes. */
  #forgotten = 0

  append(records: readonly string[], at: number): void {
    for (const record of records) this.#records.push({ at, record })
  }

  page({ limit, after = '0' }: PageRequest): Page<string> {
    const from = Math.max(auditPlace(after) - this.#forgotten, 0)
    const items = this.#records.slice(from, from + limit).map(({ record }) => record)
    const next = from + items.length
    return next < this.#records.length ? { items, next: String(this.#forgotten + next) } : { items }
  }

  /** Removes records up to a time, at most `limit`. Returns how many. */
  prune(before: number, limit: number): number {
    const firstKept = this.#records.findIndex(({ at }) => at > before)
    const count = Math.min(firstKept === -1 ? this.#records.length : firstKept, limit)
    this.#records = this.#records.slice(count)
    this.#forgotten += count
    return count
  }
}
