import type { By } from '../ledger.js'
import type { BudgetStop, ItemCounts } from '../run-store.js'
import type { Exceeded } from '../runs/budget.js'
import { commonest } from '../runs/cause.js'
import { RunNotFoundError } from '../runs/errors.js'
import { FIRST_RUN_LANE, lanesOf } from '../runs/items.js'
import { runRow, runState } from '../runs/run-row.js'
import { type Checked, checked, failedBy, isEnded, reopened, stopped } from '../runs/run-rules.js'
import type { RunState, StageCounts } from '../runs/run-state.js'
import { setPause } from './operators.js'
import type { EndedItem } from './settle.js'
import type { DeadItem, RunStatements } from './statements/runs.js'
import type { Statements } from './statements.js'

/** The statements of tasks and of runs, which a change of a run needs together. */
export interface RunTables {
  readonly tasks: Statements
  readonly runs: RunStatements
}

/** A run that must be there. */
export function loadRun({ runs }: RunTables, id: string): RunState {
  const state = runs.run.get(id)
  if (state === undefined) throw new RunNotFoundError(id)
  return runState(state)
}

export function saveRun({ runs }: RunTables, state: RunState): void {
  runs.save.run(runRow(state))
}

/** The items of a run by stage and status. */
export function countsOf({ runs }: RunTables, state: Pick<RunState, 'id' | 'pipeline'>): StageCounts {
  const rows = runs.counts.all(lanesOf(state))
  return new Map(rows.map(({ category, ...counts }): [string, ItemCounts] => [category, counts]))
}

/** Pauses the lanes of a run, or takes its pause back. */
export function pauseRun({ tasks, runs }: RunTables, state: RunState, isPaused: boolean, now: number, by?: By): void {
  const lanes = lanesOf(state)
  if (isPaused) return setPause(tasks, lanes, true, by, now)
  runs.dropPauseRule.run(lanes)
  runs.pauseByRules.run(lanes)
}

/** Saves a run after a check, unless nothing has changed, and stops it if its budget is exceeded. */
export function saveChecked(
  tables: RunTables,
  before: RunState,
  { state, hasFailed, exceeded }: Checked,
  now: number,
): RunState {
  const ended = hasFailed ? failedBy(state, causeOf(tables, state, {})) : state
  const after = exceeded === undefined ? ended : stopRun(tables, state, exceeded, now)
  if (after !== before) saveRun(tables, after)
  return after
}

function stopRun(tables: RunTables, state: RunState, exceeded: Exceeded, now: number): RunState {
  pauseRun(tables, state, true, now)
  return stopped(state, exceeded, causeOf(tables, state, exceeded), now)
}

/** The commonest failure among the dead items of a run, of those that died in a stage or since a time. */
function causeOf(
  tables: RunTables,
  state: RunState,
  { since = state.createdAt, stage }: Partial<Exceeded>,
): BudgetStop['cause'] {
  const scope = { ...lanesOf(state), since, category: stage ?? null }
  const deaths = tables.runs.deaths.all(scope).map(({ error_code, category, count }) => ({
    errorCode: error_code ?? undefined,
    stage: category,
    count,
  }))
  return commonest(deaths)
}

/** Lists outputs that are to be written, and checks the budgets of runs for which that is due. Returns those it stopped. */
export function noteEnded(tables: RunTables, items: readonly EndedItem[], now: number): ReadonlySet<string> {
  const { runs } = tables
  const lanes = new Set(items.map(({ lane }) => lane))
  const touched = new Map([...lanes].map(lane => [lane, runs.watched.get(lane)]))
  for (const { id, lane, isSucceeded } of items) {
    const run = touched.get(lane)
    if (isSucceeded && run?.has_output === 1) runs.addOutput.run(run.id, id)
  }
  const due = new Map([...touched.values()].map(run => [run?.id ?? '', run?.next_check ?? Infinity]))
  const stopped = new Set<string>()
  for (const [id, nextCheck] of due) {
    const isDue = nextCheck !== Infinity && (runs.processed.get(id) ?? 0) >= nextCheck
    if (isDue && isStoppedBy(tables, id, now)) stopped.add(id)
  }
  return stopped
}

/** Checks the budget of a run. Returns whether that has stopped it. */
function isStoppedBy(tables: RunTables, id: string, now: number): boolean {
  const run = loadRun(tables, id)
  const result = checked(run, countsOf(tables, run), now)
  // No settlement ends a run.
  if (!isEnded(result.state)) saveChecked(tables, run, result, now)
  return result.exceeded !== undefined
}

/** The runs of those tasks that are items. A task's lane tells, since a task of another kind may have an id like an item's. */
export function runsOf({ tasks, runs }: RunTables, ids: readonly string[]): RunState[] {
  const lanes = new Set(ids.map(id => tasks.state.get(id)?.lane ?? 0))
  const found = new Set([...lanes].map(lane => (lane < FIRST_RUN_LANE ? undefined : runs.watched.get(lane)?.id)))
  const states = [...found].map(id => (id === undefined ? undefined : runs.run.get(id)))
  return states.filter(state => state !== undefined).map(runState)
}

/** The tasks among these that are dead items. */
export function deadItemsOf({ runs }: RunTables, ids: readonly string[]): DeadItem[] {
  return [...new Set(ids)].flatMap(id => {
    const item = runs.dead.get(id)
    return item === undefined ? [] : [{ id, ...item }]
  })
}

/** Opens the runs again of items that were dead and are redriven, at the stage `as` if it is given. Returns those that had ended. */
export function reopenRuns(
  tables: RunTables,
  items: readonly DeadItem[],
  as: string | undefined,
  now: number,
): string[] {
  const states = [...new Set(items.map(({ run }) => run))].flatMap(id => tables.runs.run.get(id) ?? []).map(runState)
  for (const state of states) {
    const redriven = items
      .filter(({ run }) => run === state.id)
      .map(({ stage, diedAt }) => ({ stage, diedAt, to: as ?? stage }))
    saveRun(tables, reopened(state, redriven, countsOf(tables, state), now))
  }
  return states.filter(isEnded).map(({ id }) => id)
}
