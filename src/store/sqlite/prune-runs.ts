import type { Retention } from '../contract/store.js'
import { lanesOf } from '../rules/runs/items.js'
import { runRow, runState } from '../rules/runs/run-row.js'
import type { RunState } from '../rules/runs/run-state.js'
import { statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import type { RunStatements } from './statements/runs.js'
import type { Statements } from './statements.js'

/** The statements of tasks and of runs. */
export interface RunTables {
  readonly tasks: Statements
  readonly runs: RunStatements
}

/**
 * Forgets runs that ended long enough ago, with all that belongs to them, up to a limit of items and runs. A run that takes
 * several calls is hidden by the first. Returns how many it deleted. Within a transaction.
 */
export function pruneRuns(tables: RunTables, { endedMs, deadMs }: Retention, limit: number, now: number): number {
  const { runs } = tables
  let left = limit
  while (left > 0) {
    const half = runs.halfForgotten.get()
    const before = {
      ended: endedMs === undefined ? null : now - endedMs,
      dead: deadMs === undefined ? null : now - deadMs,
    }
    const found = half ?? runs.forgettable.get(before)
    if (found === undefined) break
    const state = runState(found)
    if (half === undefined) runs.save.run(runRow({ ...state, isForgotten: true }))
    left -= forgetItems(tables, state, left, now)
    if (left === 0) break
    forgetRun(tables, state)
    left--
  }
  return limit - left
}

function forgetItems({ tasks, runs }: RunTables, { id: run }: RunState, limit: number, now: number): number {
  const book = new LaneBook(tasks)
  const items = runs.itemsToForget.all(`${run}:`, `${run};`, limit)
  for (const { seq, lane, state, failure_group, has_steps } of items) {
    tasks.forgetLedger.run(seq)
    if (has_steps) tasks.dropSteps.run(seq)
    tasks.forgetTask.run(seq)
    book.move(lane, statusOf(state), undefined)
    book.groups.leave(failure_group, statusOf(state), now)
  }
  book.write()
  // There are no more of these than items, so they are gone once the items are.
  runs.forgetPositions.run({ run, limit })
  runs.forgetOutputs.run({ run, limit })
  return items.length
}

function forgetRun({ runs }: RunTables, state: RunState): void {
  const lanes = lanesOf(state)
  runs.forgetLanes.run(lanes)
  runs.forgetLimitRules.run(lanes)
  runs.forgetPauseRules.run(lanes)
  runs.forgetRun.run(state.id)
}
