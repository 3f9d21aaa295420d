import { isDeepStrictEqual } from 'node:util'
import type { BudgetStop, Chunk, NewRun, RunChange, RunSettings } from '../../contract/run-store.js'
import type { Retention } from '../../contract/store.js'
import type { NewTask } from '../../contract/task.js'
import { isHeld, leaseFrom } from '../lease.js'
import {
  checkBudget,
  type Exceeded,
  figuresOf,
  freshBudget,
  lowered,
  type RedrivenItem,
  withoutRedriven,
} from './budget.js'
import { checkSettings } from './check-run.js'
import { RunBusyError, RunEndedError } from './errors.js'
import { itemTasks } from './items.js'
import { type RunState, type StageCounts, statusOf, totalOf } from './run-state.js'
import { runStatus } from './run-status.js'

/**
 * The rules of a run: what each verb makes of it. Pure: a record, its counts, the input and the time give the new record.
 * Memory, SQLite and PostgreSQL share them; a store loads the record under a lock, applies a rule, and saves it.
 */

/** A new run. */
export function opened(run: NewRun, now: number): RunState {
  const { reader, hasOwnIds = false, hasOutput = false, onEnd, about, ...fields } = run
  return {
    ...fields,
    hasOwnIds,
    hasOutput,
    ...(onEnd !== undefined && { onEnd }),
    ...(about !== undefined && { about }),
    phase: 'open',
    isPaused: false,
    revision: 1,
    position: 0,
    duplicates: 0,
    cursor: undefined,
    isRead: false,
    reader: reader && { name: reader.name, ...leaseFrom(now, reader.leaseMs) },
    sourceError: undefined,
    stop: undefined,
    cause: undefined,
    endings: 0,
    outputBytes: 0,
    createdAt: now,
    changedAt: now,
    endedAt: undefined,
    budget: freshBudget(figuresOf(run, new Map(), now)),
    deadAtEnd: 0,
    isForgotten: false,
  }
}

/** After a reader has taken or renewed its lease. */
export function readBy(state: RunState, reader: string, leaseMs: number, now: number): RunState {
  if (state.isRead || state.phase !== 'open')
    throw new RunEndedError(state.id, statusOf(state, now), 'there is nothing left to read from its source.')
  if (state.reader !== undefined && state.reader.name !== reader && isHeld(state.reader, now)) {
    const until = new Date(state.reader.until).toISOString()
    const problem = `is read by '${state.reader.name}', whose lease runs until ${until}. Stop that process, or wait.`
    throw new RunBusyError(state.id, problem)
  }
  return { ...state, reader: { name: reader, ...leaseFrom(now, leaseMs) }, sourceError: undefined, changedAt: now }
}

/** After a chunk of the source. The store adds the items, and then counts those whose id was taken. */
export function taken(
  state: RunState,
  chunk: Chunk,
  now: number,
): { readonly state: RunState; readonly items: readonly (NewTask & { readonly id: string })[] } {
  // A chunk that is sent again, because the answer was lost, has been taken already.
  if (isRepeated(state, chunk)) return { state, items: [] }
  const read = readBy(state, chunk.reader, chunk.leaseMs, now)
  if (chunk.position !== state.position) {
    const problem = `has been read up to position ${state.position}, and this chunk begins at ${chunk.position}. Read on from there.`
    throw new RunBusyError(state.id, problem)
  }
  const position = state.position + chunk.items.length
  const cursor = chunk.cursor ?? state.cursor
  const reader = chunk.isEnd ? undefined : read.reader
  return { state: { ...read, position, cursor, isRead: chunk.isEnd, reader }, items: itemTasks(state, chunk) }
}

function isRepeated(state: RunState, { reader, position, items, cursor, isEnd }: Chunk): boolean {
  const isLast = position + items.length === state.position && (cursor === undefined || cursor === state.cursor)
  if (isEnd) return isLast && state.isRead && state.phase !== 'cancelling' && state.phase !== 'cancelled'
  return isLast && items.length > 0 && state.reader?.name === reader
}

/** The result of a check. */
export interface Checked {
  /** The same object if nothing has changed. */
  readonly state: RunState
  /** The run has ended: to be enqueued in the same transaction. */
  readonly tasks: readonly NewTask[]
  /** The run has failed: the store finds the cause, and calls `failedBy`. */
  readonly hasFailed: boolean
  /** A budget is exceeded: the store finds the cause, and calls `stopped`. */
  readonly exceeded: Exceeded | undefined
}

/** After adding up: ends the run if nothing is left to do, and otherwise looks at its budget. */
export function checked(state: RunState, counts: StageCounts, now: number): Checked {
  if (isEnded(state)) return { state, tasks: [], hasFailed: false, exceeded: undefined }
  const { waiting, running, ...ended } = totalOf(counts)
  const isLeft = waiting + running > 0 || !state.isRead
  if (!isLeft) return endedRun(state, counts, runStatus(ended, state.settings), now)
  const { budget, exceeded } = checkBudget(state.budget, state.settings, figuresOf(state, counts, now))
  const isWatched = state.phase === 'open' && state.stop === undefined
  const next = isDeepStrictEqual(budget, state.budget) ? state : { ...state, budget }
  return { state: next, tasks: [], hasFailed: false, exceeded: isWatched ? exceeded : undefined }
}

/** After its budget was exceeded. The lanes of the run are to be paused. */
export function stopped(
  state: RunState,
  { since: _, ...figures }: Exceeded,
  cause: BudgetStop['cause'],
  now: number,
): RunState {
  return { ...state, stop: { at: now, ...figures, cause }, changedAt: now }
}

/** After it has failed. */
export function failedBy(state: RunState, cause: BudgetStop['cause']): RunState {
  return { ...state, cause }
}

/** After a change. `isPaused` says whether the lanes of the run are to be paused, or opened. */
export function changed(
  state: RunState,
  change: RunChange,
  counts: StageCounts,
  now: number,
): { readonly state: RunState; readonly isPaused: boolean | undefined } {
  const { isPaused, stages = state.stages, version = state.version } = change
  if (isPaused !== undefined && state.phase !== 'open') {
    const problem = isPaused ? 'there is nothing to pause.' : 'to run its dead items again, reprocess them.'
    throw new RunEndedError(state.id, statusOf(state, now), problem)
  }
  const settings = withSettings(state.settings, change.settings)
  const next = { ...failedToRead(state, change), settings, stages, version, revision: state.revision + 1 }
  if (isPaused === undefined) return { state: { ...next, changedAt: now }, isPaused }
  // After a stop the budget counts afresh, or it would stop the run again at once.
  const isResumed = !isPaused && state.stop !== undefined
  const budget = isResumed ? freshBudget(figuresOf(next, counts, now)) : next.budget
  const stop = isPaused ? next.stop : undefined
  return { state: { ...next, isPaused, stop, budget, changedAt: now }, isPaused }
}

/** The source threw, or its reader gave up; unless another reader has taken over since. */
function failedToRead(state: RunState, { sourceError, reader }: RunChange): RunState {
  const isOthers = reader !== undefined && state.reader !== undefined && state.reader.name !== reader
  if (sourceError === undefined || state.isRead || isOthers) return state
  return { ...state, sourceError, reader: undefined }
}

/** A field that is `undefined` is left as it was, except that a window can be given up. */
function withSettings(settings: RunSettings, change: Partial<RunSettings> = {}): RunSettings {
  const given = Object.entries(change).filter(([name, value]) => value !== undefined || name === 'budgetWindow')
  const next: RunSettings = { ...settings, ...Object.fromEntries(given) }
  checkSettings(next)
  return next
}

/** After a cancellation. The lanes of the run are to be paused, and its waiting items cancelled. */
export function cancelling(state: RunState, now: number): RunState {
  if (state.phase === 'cancelling' || state.phase === 'cancelled') return state
  if (state.phase !== 'open') throw new RunEndedError(state.id, state.phase, 'there is nothing left to cancel.')
  return { ...state, phase: 'cancelling', isRead: true, reader: undefined, stop: undefined, changedAt: now }
}

/** After some of its dead items were redriven. A run that has ended is open again. */
export function reopened(
  state: RunState,
  redriven: readonly RedrivenItem[],
  counts: StageCounts,
  now: number,
): RunState {
  const figures = figuresOf(state, counts, now)
  const budget = lowered(withoutRedriven(state.budget, state, redriven), figures)
  if (!isEnded(state)) return { ...state, budget, changedAt: now }
  const again = {
    phase: 'open',
    isPaused: false,
    stop: undefined,
    cause: undefined,
    endedAt: undefined,
    changedAt: now,
  } as const
  return { ...state, ...again, budget: freshBudget(figures) }
}

/** Refuses to redrive items of a run that is being cancelled: they would be cancelled at once. */
export function refuseCancelling({ id, phase }: RunState): void {
  if (phase !== 'cancelling') return
  throw new RunBusyError(id, 'is being cancelled. Reprocess its dead items once all others have ended.')
}

export function isEnded({ endedAt }: Pick<RunState, 'endedAt'>): boolean {
  return endedAt !== undefined
}

/** Whether a run has ended for longer than its retention. One with dead items is kept as long as dead letters are, too. */
export function isForgettable({ endedAt, deadAtEnd }: RunState, { endedMs, deadMs }: Retention, now: number): boolean {
  if (endedAt === undefined || endedMs === undefined || endedAt > now - endedMs) return false
  return deadAtEnd === 0 || (deadMs !== undefined && endedAt <= now - deadMs)
}

function endedRun(state: RunState, counts: StageCounts, status: ReturnType<typeof runStatus>, now: number): Checked {
  const phase = state.phase === 'cancelling' ? 'cancelled' : status
  const endings = state.endings + 1
  const total = totalOf(counts)
  const end = { phase, endings, endedAt: now, changedAt: now, deadAtEnd: total.dead, isPaused: false } as const
  const { id: run, onEnd } = state
  const about = JSON.stringify({ run, status: phase, counts: total }).slice(0, -1)
  // The payload is JSON text already.
  const task = onEnd && { ...onEnd, id: `${run}:end:${endings}`, payload: `${about},"payload":${onEnd.payload}}` }
  const tasks = task === undefined ? [] : [task]
  return { state: { ...state, ...end }, tasks, hasFailed: phase === 'failed', exceeded: undefined }
}
