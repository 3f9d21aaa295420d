import { isCovering } from '../budgets/claim-gates.js'
import type { StoreStats } from '../list.js'
import { MAX_READY_SEEN, type ReadyTasks, StatsBook } from '../stats-book.js'
import type { Connection } from './driver.js'

interface LaneRow {
  readonly id: number
  readonly kind: string
  readonly category: string
  readonly paused: number
  readonly held_until: number
  readonly waiting: number
  readonly running: number
  readonly dead: number
}

interface DueRow {
  readonly lane: number
  readonly count: number
  readonly since: number
}

/** Reads the figures of the store: all lanes, and of their tasks those that are due, up to a number. */
export class Stats {
  readonly #lanes
  readonly #ready
  readonly #due
  readonly #alone
  readonly #budgeted
  readonly #workers
  readonly #gates

  constructor(db: Connection) {
    this.#lanes = db.prepare<[], LaneRow>(/* sql */ `
      SELECT lane.id, lane.kind, lane.category, lane.paused, lane.waiting, lane.running, lane.dead,
             max(lane.held_until, ifnull(shared_limit.state ->> '$.heldUntil', 0)) AS held_until
      FROM lane LEFT JOIN shared_limit ON shared_limit.id = lane.shared`)
    this.#ready = db.prepare<[number, number], ReadyTasks>(/* sql */ `
      SELECT count(*) AS count, min(next_at) AS since
      FROM (
        SELECT next_at FROM task INDEXED BY task_ready WHERE state = 1 AND lane = ?
        ORDER BY priority DESC, submitted_at, id
        LIMIT ? + 0
      )`)
    // Tasks that are due stay scheduled until the next claim, which may be far away: nobody may be there to claim.
    this.#due = db.prepare<[number, number], DueRow>(/* sql */ `
      SELECT lane, count(*) AS count, min(next_at) AS since
      FROM (
        SELECT lane, next_at FROM task INDEXED BY task_scheduled WHERE state = 0 AND next_at <= ?
        ORDER BY next_at
        LIMIT ? + 0
      )
      GROUP BY lane`)
    this.#alone = db.prepare<[number], DueRow>(/* sql */ `
      SELECT lane, count(*) AS count, min(next_at) AS since
      FROM (
        SELECT lane, next_at FROM task INDEXED BY task_alone WHERE state = 2
        ORDER BY priority DESC, submitted_at, id
        LIMIT ? + 0
      )
      GROUP BY lane`)
    this.#budgeted = db.prepare<[number, number], { lane: number; count: number }>(/* sql */ `
      SELECT lane, count(*) AS count
      FROM (
        SELECT lane FROM budget CROSS JOIN task INDEXED BY task_budgeted
        WHERE task.state = -1 AND task.budget = budget.id AND task.next_at <= ?
        LIMIT ? + 0
      )
      GROUP BY lane`)
    this.#gates = db.prepare<[], { kind: string; category: string | null }>(/* sql */ `
      SELECT kind, category FROM budget WHERE gate ->> '$.since' IS NOT NULL`)
    this.#workers = db
      .prepare<[number], number>(/* sql */ `
        SELECT count(*) FROM worker
        WHERE until > ? AND (
          ifnull(kinds, '[]') = '[]' OR EXISTS (SELECT 1 FROM json_each(kinds) WHERE value NOT LIKE 'notify:%')
        )`)
      .pluck()
  }

  /** Looks at about `most` ready tasks: evenly over the kinds, and over the lanes of each. */
  read(now: number, most = MAX_READY_SEEN): StoreStats {
    const gates = this.#gates.all().map(({ kind, category }) => ({ kind, category: category ?? undefined }))
    const isHeld = (lane: LaneRow) => lane.held_until > now || gates.some(gate => isCovering(gate, lane))
    const lanes = this.#lanes.all()
    const due = new Map<number, ReadyTasks[]>()
    for (const row of [...this.#due.all(now, most), ...this.#alone.all(most)])
      due.set(row.lane, [...(due.get(row.lane) ?? []), row])
    const hasReady = (lane: LaneRow) => lane.waiting > 0 && lane.paused === 0 && !isHeld(lane)
    const openLanes = new Map<string, number>()
    for (const lane of lanes.filter(hasReady)) openLanes.set(kindOf(lane), (openLanes.get(kindOf(lane)) ?? 0) + 1)
    const budgeted = new Map(this.#budgeted.all(now, most).map(({ lane, count }) => [lane, count]))
    const book = new StatsBook()
    for (const lane of lanes) {
      const part = most / openLanes.size / (openLanes.get(kindOf(lane)) ?? 1)
      const ready = hasReady(lane) ? this.#ready.get(lane.id, Math.max(1, Math.floor(part))) : undefined
      const isPaused = lane.paused === 1
      const held = budgeted.get(lane.id) ?? 0
      book.add({ ...lane, budgeted: held, isPaused, isHeld: isHeld(lane) }, [
        ...(ready ? [ready] : []),
        ...(due.get(lane.id) ?? []),
      ])
    }
    return { now, workers: this.#workers.get(now) ?? 0, kinds: book.kinds }
  }
}

function kindOf({ kind, category }: LaneRow): string {
  return `${kind}\0${category}`
}
