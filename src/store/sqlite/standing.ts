import type { BudgetScope } from '../contract/budget-store.js'
import type { TaskStanding } from '../contract/task-standing.js'
import { type TaskRow, taskColumns, taskRecord } from '../rules/rows.js'
import { opensAt } from '../rules/shared-limit.js'
import { State } from '../rules/task-state.js'
import { LANE_COLUMNS, type LaneRow, laneRecord, sharedOf } from './browse.js'
import type { Connection } from './driver.js'
import { parsedCost } from './shared-book.js'
import { firstLetter, placeIn } from './statements/letters.js'

interface QueuedRow {
  readonly lane: number
  readonly worker: string | null
  readonly until: number | null
  readonly undecided: number
  readonly cancel_requested: number
  readonly cost: string | null
  readonly budget_kind: string | null
  readonly budget_category: string | null
  readonly behind_retry: string | null
  readonly blocked_by: string | null
}

interface BoundsRow extends LaneRow {
  readonly ramp: number | null
  readonly tokens: number
  readonly refilled_at: number
  readonly shared_running: number | null
}

interface Place {
  readonly lane: number
  readonly priority: number
  readonly submitted_at: number
  readonly id: string
  readonly limit: number
}

/** Tells where tasks stand. */
export class Standings {
  readonly #task
  readonly #queued
  readonly #lane
  readonly #before

  constructor(db: Connection) {
    this.#task = db.prepare<[string], TaskRow>(/* sql */ `
      SELECT ${taskColumns()} FROM task JOIN lane ON lane.id = task.lane WHERE task.id = ?`)
    this.#queued = db.prepare<[string], QueuedRow>(/* sql */ `
      SELECT task.lane, task.worker, worker.until, task.undecided, task.cancel_requested, task.cost,
             budget.kind AS budget_kind, budget.category AS budget_category,
             (SELECT head.id FROM lane CROSS JOIN task AS head INDEXED BY task_budgeted_lane
              WHERE lane.id = task.lane AND lane.ordered AND head.state = -1 AND head.lane = lane.id AND head.id <> task.id
             ) AS behind_retry,
             (SELECT ${firstLetter('lane.id', placeIn('task'))} FROM lane
              WHERE lane.id = task.lane AND lane.blocking AND task.state < 3) AS blocked_by
      FROM task LEFT JOIN worker ON worker.id = task.worker
      LEFT JOIN budget ON budget.id = task.budget AND task.state = -1
      WHERE task.id = ?`)
    this.#lane = db.prepare<[number], BoundsRow>(/* sql */ `
      SELECT ${LANE_COLUMNS}, lane.ramp, lane.tokens, lane.refilled_at,
             (SELECT sum(running) FROM lane AS other
              WHERE shared_limit.limits ->> '$.concurrency' IS NOT NULL AND other.shared = lane.shared AND other.shared IS NOT NULL
                AND other.waiting + other.running > 0) AS shared_running
      FROM lane LEFT JOIN shared_limit ON shared_limit.id = lane.shared
      WHERE lane.id = ?`)
    this.#before = db
      .prepare<Place, number>(/* sql */ `
        SELECT min(:limit, (
          SELECT count(*) FROM (
            SELECT 1 FROM task INDEXED BY task_ready
            WHERE state = 1 AND lane = :lane AND priority > :priority
            LIMIT :limit + 0)
        ) + (
          SELECT count(*) FROM (
            SELECT 1 FROM task INDEXED BY task_ready
            WHERE state = 1 AND lane = :lane AND priority = :priority AND (submitted_at, id) < (:submitted_at, :id)
            LIMIT :limit + 0)
        ))`)
      .pluck()
  }

  /** Where a task stands. Within a transaction. */
  of(id: string, limit: number, now: number): TaskStanding | undefined {
    const [row, queued] = [this.#task.get(id), this.#queued.get(id)]
    const lane = queued && this.#lane.get(queued.lane)
    if (row === undefined || queued === undefined || lane === undefined) return undefined
    const task = taskRecord(row)
    const isDue = task.nextAttemptAt !== undefined && task.nextAttemptAt <= now
    const place = { lane: queued.lane, priority: row.priority, submitted_at: row.submitted_at, id, limit }
    const isRunning = row.state === State.running && queued.worker !== null
    return {
      now,
      task,
      lane: laneRecord(lane, now),
      before: isDue ? this.#before.get(place) : undefined,
      worker: isRunning ? { name: queued.worker, until: queued.until ?? undefined } : undefined,
      isUndecided: queued.undecided === 1,
      isToBeCancelled: queued.cancel_requested === 1,
      retryBudget: retryBudget(queued),
      behindRetry: queued.behind_retry ?? undefined,
      blockedBy: queued.blocked_by ?? undefined,
      ramp: lane.ramp ?? undefined,
      rateOpensAt: rateOpensAt(lane),
      shared: sharedBounds(lane, queued, now),
    }
  }
}

function retryBudget({ budget_kind: kind, budget_category: category }: QueuedRow): BudgetScope | undefined {
  return kind === null ? undefined : { kind, ...(category !== null && { category }) }
}

/** When a lane with a rate has its next token. */
function rateOpensAt({ per_second, tokens, refilled_at }: BoundsRow): number | undefined {
  return per_second === null ? undefined : Math.ceil(refilled_at + ((1 - tokens) * 1000) / per_second)
}

function sharedBounds(lane: BoundsRow, { cost }: QueuedRow, now: number): TaskStanding['shared'] {
  const shared = sharedOf(lane)
  if (shared === undefined) return undefined
  return {
    running: shared.limits.concurrency === undefined ? undefined : (lane.shared_running ?? 0),
    opensAt: opensAt(shared.limits, shared.state, parsedCost(cost), now),
  }
}
