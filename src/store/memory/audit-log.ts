import type { PageRequest } from '../contract/list.js'
import type { AuditPage, AuditStore } from '../contract/store.js'
import { checkPage } from '../rules/check.js'
import { numberPlace } from '../rules/cursor.js'

/** The audit records of the memory store. */
export class MemoryAuditLog implements AuditStore {
  readonly #now: () => number
  #records: { readonly at: number; readonly record: string }[] = []
  /** How many were deleted. They still count, so that the number of a record never changes. */
  #deleted = 0

  constructor(now: () => number) {
    this.#now = now
  }

  async append(records: readonly string[]): Promise<void> {
    for (const record of records) this.add(record)
  }

  /** Appends a record as part of a verb. */
  add(record: string): void {
    this.#records.push({ at: this.#now(), record })
  }

  async page(page: PageRequest): Promise<AuditPage> {
    checkPage(page)
    const { limit, after = '0' } = page
    const from = Math.max(numberPlace(after) - this.#deleted, 0)
    const items = this.#records.slice(from, from + limit).map(({ record }) => record)
    const end = String(Math.max(this.#deleted + from + items.length, numberPlace(after)))
    return from + items.length < this.#records.length ? { items, end, next: end } : { items, end }
  }

  async tail(limit: number): Promise<AuditPage> {
    checkPage({ limit })
    const count = this.#deleted + this.#records.length
    return this.page({ limit, after: String(Math.max(0, count - limit)) })
  }

  /** The number of records up to a time. */
  prunable(before: number): number {
    const firstKept = this.#records.findIndex(({ at }) => at > before)
    return firstKept === -1 ? this.#records.length : firstKept
  }

  /** Deletes records up to a time, and up to a limit. Returns how many. */
  prune(before: number, limit: number): number {
    const count = Math.min(this.prunable(before), limit)
    this.#records = this.#records.slice(count)
    this.#deleted += count
    return count
  }
}
