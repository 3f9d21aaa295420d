import { OptionError } from '../../../policy/index.js'
import { commandLine } from '../../../policy/internal.js'
import type { By } from '../../contract/ledger.js'
import type {
  NewOperation,
  OperationProgress,
  OperationRecord,
  OperationSet,
  OperationSettings,
  OperationStatus,
  OperationStep,
  OperationTally,
  OutsideSet,
  PayloadPatch,
  TwinRule,
} from '../../contract/operation-store.js'
import { objectText } from '../json-object.js'
import { isHeld, type Lease, leaseFrom } from '../lease.js'
import { isArranging } from '../operator-acts.js'

/**
 * The rules of an operation's record. Pure: a store loads the record under a lock, applies a rule, and saves it with the
 * members that the rule is about, in one transaction.
 */

/** The record as it is kept. Its tally is kept beside it, since settlements add to that without its lock. */
export interface OperationState extends Omit<OperationRecord, 'tally' | 'driver'> {
  /** The status that a stopped operation had. */
  readonly stoppedAs: OperationStatus | undefined
  readonly lease: ({ readonly driver: string; readonly token: string } & Lease) | undefined
}

export const NO_TALLY: OperationTally = {
  passed: 0,
  failed: 0,
  unanswered: 0,
  succeeded: 0,
  skipped: 0,
  dead: 0,
  cancelled: 0,
}

/** The window of an operation without a canary: large enough to keep a few workers busy. */
const FIRST_WINDOW = 100

/** A new operation. */
export function created({ act, set, by, settings = {} }: NewOperation, now: number): OperationState {
  return {
    id: `op-${crypto.randomUUID().slice(0, 8)}`,
    act,
    set: frozen(set),
    by,
    // A patch is kept as text, so that its numbers are those of the JSON that was passed.
    settings: { ...settings, ...(settings.patch && { patch: objectText(settings.patch) }) },
    status: firstStatus(settings),
    stoppedAs: undefined,
    stoppedBy: undefined,
    undoneBy: undefined,
    reason: undefined,
    progress: {
      isRead: false,
      canary: [],
      window: settings.canary ?? FIRST_WINDOW,
      judged: { passed: 0, failed: 0 },
      refused: {},
    },
    moved: 0,
    undone: 0,
    lease: undefined,
    createdAt: now,
    changedAt: now,
    endedAt: undefined,
  }
}

/** The members as they are kept: a part of payloads as text, like a patch. */
function frozen(set: OperationSet): OperationSet {
  if ('ids' in set) return { ids: [...new Set(set.ids)] }
  if (!('filter' in set) || set.filter.where === undefined) return set
  return { ...set, filter: { ...set.filter, where: objectText(set.filter.where) } }
}

function firstStatus({ canary, fixedIn }: OperationSettings): OperationStatus {
  if (fixedIn !== undefined) return 'planned'
  return canary === undefined ? 'running' : 'canary'
}

/** The time by which its members were dead. A member that dies again is not in the set any more. */
export function diedUntil({ set, createdAt }: Pick<OperationState, 'set' | 'createdAt'>): number {
  return 'filter' in set ? set.until : createdAt
}

/** The operation that moves tasks, when they must have been dead, and how their payloads change. */
export interface PartOfOperation {
  readonly operation: string
  readonly diedUntil: number
  readonly patch?: PayloadPatch | undefined
  readonly twin?: TwinRule | undefined
}

export function partOf(state: Pick<OperationState, 'id' | 'set' | 'createdAt' | 'settings'>): PartOfOperation {
  return { operation: state.id, diedUntil: diedUntil(state), patch: state.settings.patch, twin: state.settings.twin }
}

/** Whether an operation has work left for a driver. */
export function isOpen({ status }: Pick<OperationState, 'status'>): boolean {
  return status !== 'stopped' && status !== 'done'
}

/** Whether a driver may take the lease. */
export function isFree(state: OperationState, now: number): boolean {
  return isOpen(state) && !(state.lease !== undefined && isHeld(state.lease, now))
}

/** The operation with a new lease. */
export function taken(state: OperationState, driver: string, token: string, leaseMs: number, now: number) {
  return { ...state, lease: { driver, token, ...leaseFrom(now, leaseMs) } }
}

/** Whether members of this set are outside of the store. */
export function isOutside(set: OperationSet): set is OutsideSet {
  return 'collection' in set || 'queue' in set
}

/**
 * Whether a step may be made: its driver has the lease, and nobody has stopped the operation. The last step of a driver outside
 * of the store is taken all the same, since it notes what has happened.
 */
export function isDrivenBy({ status, set, lease }: OperationState, token: string): boolean {
  return lease?.token === token && (isOpen({ status }) || isOutside(set))
}

/** The operation after a step that moved `tasks` tasks. */
export function stepped(state: OperationState, step: OperationStep, tasks: number, now: number): OperationState {
  const moved = tasks + (step.movedOutside ?? 0)
  // Stopped meanwhile: it stays so, and the driver keeps its lease until it gives it back.
  if (!isOpen(state)) {
    const progress = progressAfter(state, step, moved, now)
    return { ...state, progress, moved: state.moved + moved, lease: renewed(state, step, now), changedAt: now }
  }
  const { status, reason } = step
  const isOver = status === 'stopped' || status === 'done'
  const isStart = state.status === 'planned' && status !== 'planned' && state.moved === 0
  return {
    ...state,
    set: isStart && 'filter' in state.set ? { ...state.set, until: now } : state.set,
    status,
    stoppedAs: status === 'stopped' ? state.status : undefined,
    reason: status === 'stopped' ? reason : undefined,
    progress: progressAfter(state, step, moved, now),
    moved: state.moved + moved,
    lease: isOver ? undefined : renewed(state, step, now),
    changedAt: now,
    endedAt: status === 'done' ? now : undefined,
  }
}

function renewed({ lease }: OperationState, { leaseMs }: OperationStep, now: number): OperationState['lease'] {
  return lease && { ...lease, ...leaseFrom(now, leaseMs) }
}

/** Why a member was not moved, though it was in the set a moment before: somebody else was faster. */
const ALREADY_BACK = 'already_back'

/** Why a slot was left alone: its run was started before. */
export const HAS_RUN = 'has_run'

/** Why a task that waited was left alone: it had started or ended by then, or it was so already. */
const NOT_CHANGED = 'not_changed'

function progressAfter(
  { act, set }: OperationState,
  step: OperationStep,
  moved: number,
  now: number,
): OperationProgress {
  const { progress, move = [], slots = [] } = step
  const back = act === 'cancel' || isOutside(set) ? 0 : move.length + slots.length - moved
  const reason = act === 'backfill' ? HAS_RUN : isArranging(act) ? NOT_CHANGED : ALREADY_BACK
  const refused = { ...progress.refused, [reason]: (progress.refused[reason] ?? 0) + back }
  return {
    ...progress,
    ...(back > 0 && { refused }),
    ...(moved > 0 && { lastMove: { at: now, count: moved } }),
  }
}

/** The operation without its lease, if the token holds it. */
export function released(state: OperationState, token: string): OperationState {
  return state.lease?.token === token ? { ...state, lease: undefined } : state
}

/**
 * A stopped operation. One that is over already stays as it is. A driver outside of the store keeps its lease until it has noted
 * what it moved meanwhile, so that nobody who continues the operation meets it on the same members.
 */
export function stopped(state: OperationState, { who, why }: By, now: number): OperationState {
  if (!isOpen(state)) return state
  const reason = why === undefined ? `Stopped by ${who}.` : `Stopped by ${who}: ${why}`
  const lease = isOutside(state.set) ? state.lease : undefined
  const stop = { status: 'stopped', stoppedAs: state.status, stoppedBy: { who, why }, reason } as const
  return { ...state, ...stop, lease, changedAt: now }
}

/**
 * An operation that goes on where it was. Answers before the stop are not judged again, and a canary that was stopped begins
 * anew, with other members.
 */
export function continued(state: OperationState, tally: OperationTally, now: number): OperationState {
  if (state.status !== 'stopped') return state
  const { canary, canarySince, ...progress } = state.progress
  const judged = { passed: tally.passed, failed: tally.failed }
  // Members that were refused for the canary may be moved by now.
  const isRead = progress.isRead && state.stoppedAs !== 'canary'
  return {
    ...state,
    status: state.stoppedAs ?? 'running',
    stoppedAs: undefined,
    stoppedBy: undefined,
    reason: undefined,
    progress: { ...progress, isRead, canary: [], judged },
    changedAt: now,
  }
}

/** The acts that cannot be undone. The store does not know how members outside of it were, nor what has happened to them since. */
const LASTING: Readonly<Partial<Record<OperationState['act'], string>>> = {
  cancel: 'cancellation',
  reset: 'reset of documents',
  requeue: 'requeue of messages',
}

/** Whether an act can never be undone. */
export function isLasting(act: OperationState['act']): boolean {
  return LASTING[act] !== undefined
}

/** Throws an `OptionError` if the act of an operation can never be undone. */
export function refuseLasting({ id, act }: Pick<OperationState, 'id' | 'act'>): void {
  const lasting = LASTING[act]
  if (lasting !== undefined)
    throw new OptionError('id', `The operation '${id}' is a ${lasting}, which cannot be undone.`)
}

/** Throws an `OptionError` unless the members of an operation can be put back. */
export function refuseUndo({ id, act, status }: OperationState): void {
  refuseLasting({ id, act })
  if (status === 'stopped' || status === 'done' || status === 'settling') return
  throw new OptionError('id', `The operation '${id}' is ${status}. Stop it first: ${commandLine('ops stop', {}, id)}`)
}

/** The operation after members were put back. */
export function undone(state: OperationState, count: number, by: By, now: number): OperationState {
  return { ...state, undone: state.undone + count, undoneBy: count > 0 ? by : state.undoneBy, changedAt: now }
}

/** The operation as its reader gets it. */
export function operationRecord(state: OperationState, tally: OperationTally): OperationRecord {
  const { stoppedAs: _, lease, ...record } = state
  return { ...record, tally, driver: lease && { name: lease.driver, until: lease.until } }
}

/** The operation of a row. JSON leaves out fields that are `undefined`, and reads them as such. */
export function operationState(json: string): OperationState {
  const absent = {
    stoppedAs: undefined,
    stoppedBy: undefined,
    undoneBy: undefined,
    reason: undefined,
    lease: undefined,
    endedAt: undefined,
  }
  return { ...absent, ...JSON.parse(json) }
}
