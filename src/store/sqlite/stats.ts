import type { SharedLimits } from '../contract/lane.js'
import type { KindStats, StoreStats } from '../contract/list.js'
import type { Cost } from '../contract/task.js'
import { isHolding } from '../rules/budgets/budget-state.js'
import { isCovering } from '../rules/budgets/claim-gates.js'
import type { SharedState } from '../rules/shared-limit.js'
import { type CountedSharedLimit, type DueTasks, MAX_READY_SEEN, StatsBook } from '../rules/stats-book.js'
import { parsedBudget } from './budget-book.js'
import type { Connection } from './driver.js'
import { LaneQueue, type LimitsRow } from './lane-queue.js'
import { parsedCost, SharedBook } from './shared-book.js'
import type { BudgetRow } from './statements/budgets.js'
import { firstLetter, headOf, placeIn } from './statements/letters.js'
import { statementsOf } from './statements.js'

interface LaneRow extends LimitsRow {
  readonly id: number
  readonly kind: string
  readonly category: string
  readonly paused: number
  readonly held_until: number
  readonly waiting: number
  /** The id of its quota. */
  readonly quota: number | null
  /** Whether it is ordered, and a retry that its budget holds goes before all others. */
  readonly is_blocked: number
  /** Whether a dead letter is before all tasks that could start. */
  readonly is_stopped: number
}

type CountsRow = Pick<KindStats, 'kind' | 'category' | 'waiting' | 'running' | 'dead'>

interface SharedRow {
  readonly kind: string
  readonly category: string | null
  readonly limits: string
  readonly state: string
}

interface DueRow {
  readonly lane: number
  readonly count: number
  readonly since: number
}

/** Reads the figures of the store: all lanes, and of their tasks those that are due, up to a number. */
export class Stats {
  readonly #db: Connection
  readonly #counts
  readonly #lanes
  readonly #shared
  readonly #cost
  readonly #ready
  readonly #since
  readonly #due
  readonly #alone
  readonly #budgeted
  readonly #workers
  readonly #budgets

  constructor(db: Connection) {
    this.#db = db
    this.#counts = db.prepare<[], CountsRow>(/* sql */ `
      SELECT kind, category, sum(waiting) AS waiting, sum(running) AS running, sum(dead) AS dead
      FROM lane GROUP BY kind, category`)
    this.#lanes = db.prepare<{ now: number }, LaneRow>(/* sql */ `
      SELECT lane.id, lane.kind, lane.category, iif(shared_limit.quota IS NULL, NULL, shared_limit.id) AS quota, paused,
             waiting, running, ramp, concurrency, per_second, tokens, refilled_at,
             max(lane.held_until, ifnull(shared_limit.state ->> '$.heldUntil', 0)) AS held_until,
             lane.ordered AND EXISTS (
               SELECT 1 FROM task INDEXED BY task_budgeted_lane WHERE task.state = -1 AND task.lane = lane.id
             ) AS is_blocked,
             lane.blocking AND ${firstLetter('lane.id')} IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM ${headOf('lane.id')} AS head WHERE ${firstLetter('lane.id', placeIn('head'))} IS NULL
             ) AND NOT EXISTS (
               SELECT 1 FROM task INDEXED BY task_alone
               WHERE task.state = 2 AND task.lane = lane.id AND ${firstLetter('lane.id', placeIn('task'))} IS NULL
             ) AND NOT EXISTS (
               SELECT 1 FROM task INDEXED BY task_scheduled
               WHERE task.state = 0 AND task.next_at <= :now AND task.lane = lane.id
                 AND ${firstLetter('lane.id', placeIn('task'))} IS NULL
             ) AS is_stopped
      FROM lane LEFT JOIN shared_limit ON shared_limit.id = lane.shared
      WHERE lane.waiting > 0`)
    this.#shared = db.prepare<[], SharedRow>(
      /* sql */ `SELECT kind, category, limits, state FROM shared_limit WHERE quota IS NULL`,
    )
    this.#cost = db
      .prepare<[number], string | null>(/* sql */ `
        SELECT cost FROM task INDEXED BY task_ready WHERE state = 1 AND lane = ?
        ORDER BY priority DESC, submitted_at, id LIMIT 1`)
      .pluck()
    const firstReady = (column: string) => /* sql */ `
      SELECT ${column} FROM (
        SELECT next_at FROM task INDEXED BY task_ready WHERE state = 1 AND lane = lane.id
        ORDER BY priority DESC, submitted_at, id
        LIMIT :most + 0
      )`
    this.#ready = db.prepare<object, DueRow>(/* sql */ `
      SELECT id AS lane, (${firstReady('count(*)')}) AS count, (${firstReady('min(next_at)')}) AS since
      FROM lane
      WHERE kind = :kind AND category = :category AND waiting > 0 AND paused = 0 AND held_until <= :now`)
    this.#since = db
      .prepare<object, number | null>(/* sql */ `
        SELECT (${firstReady('min(next_at)')}) FROM lane WHERE id = :lane`)
      .pluck()
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
    this.#budgets = db.prepare<[], BudgetRow>(/* sql */ `
      SELECT id, kind, category, settings, gate, counts, retries, spent FROM budget`)
    this.#workers = db
      .prepare<[number, number], number>(/* sql */ `
        SELECT count(*) FROM worker
        WHERE until > ? AND until <= ? + ifnull(2 * lease_ms, until) AND (
          ifnull(kinds, '[]') = '[]' OR EXISTS (SELECT 1 FROM json_each(kinds) WHERE value NOT LIKE 'notify:%')
        )`)
      .pluck()
  }

  /** Looks at about `most` ready tasks: evenly over the kinds, and over the lanes of each. */
  read(now: number, most = MAX_READY_SEEN): StoreStats {
    const holding = this.#budgets
      .all()
      .map(parsedBudget)
      .filter(budget => isHolding(budget, now))
    const isHeld = (lane: LaneRow) =>
      lane.held_until > now || lane.is_stopped === 1 || holding.some(({ scope }) => isCovering(scope, lane))
    const lanes = this.#lanes.all({ now })
    const due = new Map<number, DueTasks[]>()
    for (const row of [...this.#due.all(now, most), ...this.#alone.all(most)])
      due.set(row.lane, [...(due.get(row.lane) ?? []), row])
    const isOpen = (lane: LaneRow) => lane.paused === 0 && !isHeld(lane)
    const open = byKind(lanes.filter(isOpen))
    const budgeted = new Map(this.#budgeted.all(now, most).map(({ lane, count }) => [lane, count]))
    const ready = this.#readyByLane(open.values(), most, now)
    const book = new StatsBook()
    const shared = new SharedBook(statementsOf(this.#db))
    const quotaOf = ({ quota }: LaneRow) => (quota === null ? undefined : { id: quota, room: shared.room(quota, now) })
    for (const counts of this.#counts.all()) book.count(counts)
    for (const lane of lanes) {
      const allowance = lane.is_blocked === 1 ? 0 : LaneQueue.allowance(lane, now)
      const held = isHeld(lane)
      const { id, kind, category, waiting } = lane
      const state = { isPaused: lane.paused === 1, isHeld: held, budgeted: budgeted.get(id) ?? 0 }
      const first = lane.paused === 1 || held ? undefined : ready.get(id)
      const tasks = first === undefined ? [] : [this.#within(first, allowance)]
      book.add({ kind, category, waiting, ...state, allowance, quota: quotaOf(lane) }, [
        ...tasks,
        ...(due.get(id) ?? []),
      ])
    }
    const costOf = (part: KindStats) => this.#costIn(open.get(kindOf(part))?.first)
    const kinds = book.kinds(this.#shared.all().map(sharedLimit), costOf, now)
    return { now, workers: this.#workers.get(now, now) ?? 0, kinds }
  }

  /** The first ready tasks of each open lane, with one statement for each kind and category. */
  #readyByLane(kinds: Iterable<OpenKind>, most: number, now: number): Map<number, DueRow> {
    const open = [...kinds]
    const found = new Map<number, DueRow>()
    for (const { kind, category, count } of open) {
      const part = Math.max(1, Math.floor(most / open.length / count))
      for (const row of this.#ready.iterate({ kind, category, most: part, now }))
        if (row.count > 0) found.set(row.lane, row)
    }
    return found
  }

  /** Ready tasks with the time since when those are due that the lane lets start. */
  #within({ lane, count, since }: DueRow, allowance: number): DueTasks {
    if (count <= allowance) return { count, since }
    return { count, since: allowance <= 0 ? undefined : this.#since.get({ lane, most: allowance }) }
  }

  #costIn(lane: number | undefined): Cost | undefined {
    return lane === undefined ? undefined : parsedCost(this.#cost.get(lane))
  }
}

/** A kind and category with open lanes: how many, and the first of them. */
interface OpenKind extends Pick<LaneRow, 'kind' | 'category'> {
  count: number
  readonly first: number
}

function kindOf({ kind, category }: Pick<LaneRow, 'kind' | 'category'>): string {
  return `${kind}\0${category}`
}

/** The lanes by kind and category. */
function byKind(lanes: readonly LaneRow[]): Map<string, OpenKind> {
  const kinds = new Map<string, OpenKind>()
  for (const lane of lanes) {
    const { kind, category, id } = lane
    const known = kinds.get(kindOf(lane))
    if (known === undefined) kinds.set(kindOf(lane), { kind, category, count: 1, first: id })
    else known.count++
  }
  return kinds
}

function sharedLimit({ kind, category, limits, state }: SharedRow): CountedSharedLimit {
  const parsed = { limits: JSON.parse(limits) as SharedLimits, state: JSON.parse(state) as SharedState }
  return { kind, category: category ?? undefined, ...parsed }
}
