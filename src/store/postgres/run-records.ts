import type { By } from '../ledger.js'
import type { BudgetStop, ItemCounts } from '../run-store.js'
import type { Exceeded } from '../runs/budget.js'
import { commonest } from '../runs/cause.js'
import { RunNotFoundError } from '../runs/errors.js'
import { lanesOf } from '../runs/items.js'
import { runRow, runState } from '../runs/run-row.js'
import { type Checked, failedBy, isEnded, reopened, stopped } from '../runs/run-rules.js'
import type { RunState, StageCounts } from '../runs/run-state.js'
import { byValues } from './operators.js'
import { stored } from './text.js'

/** Calls a function of the schema within a transaction. */
export type Call = (fn: string, values: unknown[]) => Promise<unknown>

/** A run that is locked, and the time. */
export interface LockedRun {
  readonly state: RunState
  readonly now: number
}

/** Locks a run; `undefined` if there is none. */
export async function lockRun(call: Call, id: string, at: number | null): Promise<LockedRun | undefined> {
  const answer = (await call('lock_run', [id, at])) as { readonly state: string; readonly now: number } | null
  return answer === null ? undefined : { state: runState(answer.state), now: answer.now }
}

/** Locks a run that must be there. */
export async function lockedRun(call: Call, id: string, at: number | null): Promise<LockedRun> {
  const run = await lockRun(call, id, at)
  if (run === undefined) throw new RunNotFoundError(id)
  return run
}

export async function saveRun(call: Call, state: RunState): Promise<void> {
  await call('save_run', [runJson(state)])
}

/** The row of a run, with flags as PostgreSQL reads them. */
export function runJson(state: RunState): string {
  const { forgotten, has_output, ...row } = runRow(state)
  return JSON.stringify({ ...row, forgotten: forgotten === 1, has_output: has_output === 1 })
}

/** A stage with its items, as `run_counts` gives it. */
export type CountsRow = ItemCounts & { readonly id: number; readonly category: string }

export function stageCounts(rows: readonly CountsRow[]): StageCounts {
  return new Map(rows.map(({ id: _, category, ...counts }): [string, ItemCounts] => [category, counts]))
}

/** The items of a run by stage and status. Taken after the run was locked, they have all that was committed before. */
export async function countsOf(call: Call, state: RunState): Promise<StageCounts> {
  const { kind, key } = lanesOf(state)
  return stageCounts((await call('run_counts', [kind, key])) as CountsRow[])
}

/** Pauses the lanes of a run, or takes its pause back. */
export async function pauseRun(call: Call, state: RunState, isPaused: boolean, now: number, by?: By): Promise<void> {
  const { kind, key } = lanesOf(state)
  if (isPaused) await call('pause', [kind, null, key, true, ...byValues(by), now])
  else await call('end_pause', [kind, key])
}

/** A run after a check: with the cause if it has failed, and stopped if its budget is exceeded. */
export async function withCause(call: Call, { state, hasFailed, exceeded }: Checked, now: number): Promise<RunState> {
  if (hasFailed) return failedBy(state, await causeOf(call, state, {}))
  if (exceeded === undefined) return state
  await pauseRun(call, state, true, now)
  return stopped(state, exceeded, await causeOf(call, state, exceeded), now)
}

/** The commonest failure among the dead items of a run, of those that died in a stage or since a time. */
async function causeOf(
  call: Call,
  state: RunState,
  { since = 0, stage }: Partial<Exceeded>,
): Promise<BudgetStop['cause']> {
  const { kind, key } = lanesOf(state)
  const rows = (await call('deaths', [kind, key, stage ?? null, since])) as DeathRow[]
  return commonest(rows.map(({ error_code, ...row }) => ({ ...row, errorCode: stored(error_code ?? undefined) })))
}

interface DeathRow {
  readonly error_code: string | null
  readonly stage: string
  readonly count: number
}

/** An item as `item_runs` gives it. */
export interface ItemRow {
  readonly id: string
  readonly run: string
  readonly stage: string
  readonly changed_at: number
}

/** Opens runs again after these dead items were redriven, at the stage `as` if it is given. Returns those that had ended. */
export async function reopenRuns(
  call: Call,
  runs: readonly LockedRun[],
  items: readonly ItemRow[],
  as?: string,
): Promise<string[]> {
  const touched = runs.filter(({ state }) => items.some(({ run }) => run === state.id))
  for (const { state, now } of touched) {
    const redriven = items
      .filter(({ run }) => run === state.id)
      .map(({ stage, changed_at }) => ({ stage, diedAt: changed_at, to: as ?? stage }))
    await saveRun(call, reopened(state, redriven, await countsOf(call, state), now))
  }
  return touched.filter(({ state }) => isEnded(state)).map(({ state }) => state.id)
}
