import { nextCheckAt } from './budget.js'
import { isEnded } from './run-rules.js'
import type { RunState } from './run-state.js'

/** A row of the table `run`: the record as JSON, and the columns that statements search by. */
export interface RunRow {
  readonly id: string
  readonly pipeline: string
  readonly created_at: number
  /** `null` while it has not ended. */
  readonly ended_at: number | null
  /** The number of dead items when it last ended. */
  readonly dead: number
  readonly forgotten: number
  readonly has_output: number
  /** The number of processed items from which its budget is looked at again; `null`: never. */
  readonly next_check: number | null
  readonly state: string
}

/** The row of a run. */
export function runRow(state: RunState): RunRow {
  const next = isEnded(state) ? Infinity : nextCheckAt(state.budget, state.settings)
  return {
    id: state.id,
    pipeline: state.pipeline,
    created_at: state.createdAt,
    ended_at: state.endedAt ?? null,
    dead: state.deadAtEnd,
    forgotten: state.isForgotten ? 1 : 0,
    has_output: state.hasOutput ? 1 : 0,
    next_check: Number.isFinite(next) ? next : null,
    state: JSON.stringify(state),
  }
}

/** The run of a row. JSON leaves out fields that are `undefined`, and reads them as such. */
export function runState(json: string): RunState {
  const { settings, ...state } = JSON.parse(json)
  return { ...ABSENT, ...state, settings: { budgetWindow: undefined, ...settings } }
}

const ABSENT = {
  cursor: undefined,
  reader: undefined,
  sourceError: undefined,
  stop: undefined,
  cause: undefined,
  endedAt: undefined,
}
