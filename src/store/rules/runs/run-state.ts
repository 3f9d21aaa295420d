import type { ItemCounts, RunRecord, RunStatus } from '../../contract/run-store.js'
import { isHeld } from '../lease.js'
import { noTasks } from '../task-state.js'
import type { RunFigures } from './budget.js'
import type { EndStatus } from './run-status.js'

/** A run as stores keep it: all but the counts, which are those of its lanes. Plain data that JSON can hold. */
export interface RunState extends Omit<RunRecord, 'status' | 'counts' | 'byStage'> {
  /** `cancelling`: it was cancelled, and some of its items have not ended. */
  readonly phase: 'open' | 'cancelling' | 'cancelled' | EndStatus
  /** Somebody asked to pause it. */
  readonly isPaused: boolean
  readonly budget: RunFigures
  /** The number of dead items when it last ended. */
  readonly deadAtEnd: number
  /** Its items are being deleted, and it is shown no more. */
  readonly isForgotten: boolean
}

/** The counts of each stage of a run that has a lane. */
export type StageCounts = ReadonlyMap<string, ItemCounts>

/** The record that readers see. */
export function runRecord(state: RunState, counts: StageCounts, now: number): RunRecord {
  const { phase: _p, isPaused: _i, budget: _b, deadAtEnd: _d, isForgotten: _f, ...fields } = state
  const stages = [...new Set([...state.stages, ...counts.keys()])]
  return {
    ...fields,
    status: statusOf(state, now),
    counts: totalOf(counts),
    byStage: stages.map(stage => ({ stage, counts: counts.get(stage) ?? noTasks() })),
  }
}

/** The status of a run, as of now: a lease that expires interrupts it without anybody writing so. */
export function statusOf(state: RunState, now: number): RunStatus {
  if (state.phase !== 'open') return state.phase === 'cancelling' ? 'cancelled' : state.phase
  if (state.stop !== undefined) return 'stopped'
  if (state.isPaused) return 'paused'
  const isReaderGone = state.reader !== undefined && !isHeld(state.reader, now)
  return !state.isRead && (isReaderGone || state.sourceError !== undefined) ? 'interrupted' : 'running'
}

/** All items of a run, by status. */
export function totalOf(counts: StageCounts): ItemCounts {
  const total = noTasks()
  for (const stage of counts.values()) {
    for (const status of Object.keys(total) as (keyof ItemCounts)[]) total[status] += stage[status]
  }
  return total
}
