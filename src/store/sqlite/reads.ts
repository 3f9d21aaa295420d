import type { CostField, CostFilter } from '../contract/cost.js'
import type { Lane, LaneRecord } from '../contract/lane.js'
import type { LaneRules } from '../contract/lane-rule.js'
import type { LedgerRow } from '../contract/ledger.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount } from '../contract/list.js'
import type { Prunable } from '../contract/prunable.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { Retention } from '../contract/store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import type { ColumnFilter, ReadPort } from '../port/read-port.js'
import { type CostRow, costColumns } from '../rules/costs.js'
import type { TaskPlace } from '../rules/cursor.js'
import { hourOf } from '../rules/groups/trend.js'
import { containing } from '../rules/json-contains.js'
import { Browser } from './browse.js'
import { laneRules } from './lane-rules.js'
import type { SqliteParts } from './port.js'
import { PrunableCounts } from './prunable.js'
import { Standings } from './standing.js'
import { Stats } from './stats.js'
import { liveWorkers } from './workers.js'

/** The reads of a SQLite store. Those of several statements are transactions, so that they read one state. */
export class SqliteReads implements ReadPort {
  readonly #parts: SqliteParts
  readonly #browser: Browser
  readonly #standings: Standings
  readonly #stats: Stats
  readonly #prunable: PrunableCounts

  constructor(parts: SqliteParts) {
    const { db } = parts
    this.#parts = parts
    this.#browser = new Browser(db)
    this.#standings = new Standings(db)
    this.#stats = new Stats(db)
    this.#prunable = new PrunableCounts(db)
  }

  get(id: string): TaskRecord | undefined {
    return this.#browser.get(id)
  }

  standing(id: string, limit: number): TaskStanding | undefined {
    const { db, now } = this.#parts
    return db.transaction(() => this.#standings.of(id, limit, now()))()
  }

  list(filter: ColumnFilter, page: PageRequest): Page<TaskRecord> {
    return this.#browser.list(filter, page)
  }

  places(filter: ColumnFilter, page: PageRequest): TaskPlace[] {
    return this.#browser.places(filter, page)
  }

  several(ids: readonly string[]): TaskRecord[] {
    return ids.flatMap(id => this.#browser.get(id) ?? [])
  }

  containing(ids: readonly string[], part: string): string[] {
    const isContaining = containing(part)
    return ids.filter(id => isContaining(this.#browser.payloads([id])[0] ?? ''))
  }

  count(filter: ColumnFilter): Record<TaskStatus, number> {
    return this.#browser.count(filter)
  }

  countBy(filter: ColumnFilter, fields: readonly CountField[]): TaskCount[] {
    return this.#browser.countBy(filter, fields)
  }

  costs({ kind, category, key, since = 0 }: CostFilter, by: readonly CostField[]): CostRow[] {
    const columns = costColumns(by)
    const rows = this.#parts.db.prepare<object, CostRow>(/* sql */ `
      SELECT ${columns}, sum(amount) AS amount FROM cost_tally
      WHERE (:kind IS NULL OR kind = :kind) AND (:category IS NULL OR category = :category) AND (:key IS NULL OR key = :key)
        AND hour >= :from
      GROUP BY ${columns}`)
    return rows.all({ kind: kind ?? null, category: category ?? null, key: key ?? null, from: hourOf(since) })
  }

  stats(): StoreStats {
    const { db, now } = this.#parts
    return db.transaction(() => this.#stats.read(now()))()
  }

  retried(since: number, page: PageRequest): Page<RetriedTask> {
    return this.#browser.retried(since, page)
  }

  ledgers(ids: readonly string[]): LedgerRow[][] {
    return this.#browser.ledgers(ids)
  }

  payloads(ids: readonly string[]): (string | undefined)[] {
    return this.#browser.payloads(ids)
  }

  lanes(filter: Partial<Lane>): LaneRecord[] {
    return this.#browser.lanes(filter, this.#parts.now())
  }

  laneRules(filter: Partial<Lane>): LaneRules {
    return laneRules(this.#parts.db, filter)
  }

  workers(): WorkerRecord[] {
    return liveWorkers(this.#parts.statements, this.#parts.now())
  }

  prunable(keep: Retention): Prunable {
    const { db, now } = this.#parts
    return db.transaction(() => this.#prunable.read(keep, now()))()
  }
}
