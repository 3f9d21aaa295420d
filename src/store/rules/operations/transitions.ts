import type { By } from '../../contract/ledger.js'
import type { NewOperation, OperationStep, OperationTally } from '../../contract/operation-store.js'
import { operationEnded, operationRecordOf } from '../operator-record.js'
import {
  continued,
  created,
  isFree,
  isOpen,
  type OperationState,
  stepped,
  stopped,
  taken,
  undone,
} from './operation-rules.js'

/**
 * The verbs of an operation without a store: the state that each leaves, and its entry in the audit log if it has one. Pure but
 * for new ids. A store saves both in one transaction, with the members that the verb is about.
 */

/** An operation after a verb. */
export interface Transition {
  readonly state: OperationState
  /** The record for the audit log, as JSON. */
  readonly entry?: string
}

/** Creates an operation. */
export function creation(operation: NewOperation, now: number): Transition {
  const state = created(operation, now)
  return { state, entry: operationRecordOf('operation_created', state, state.by, now) }
}

/** Gives the lease to a driver; `undefined` if it cannot have it. */
export function leasing(
  before: OperationState,
  driver: string,
  leaseMs: number,
  now: number,
): (Transition & { readonly token: string }) | undefined {
  if (!isFree(before, now)) return undefined
  const token = crypto.randomUUID()
  return { state: taken(before, driver, token, leaseMs, now), token }
}

/** Makes a step that has moved this number of members. */
export function stepping(
  before: OperationState,
  step: OperationStep,
  moved: number,
  tally: OperationTally,
  now: number,
): Transition {
  const state = stepped(before, step, moved, now)
  return isOpen(before) && !isOpen(state) ? { state, entry: operationEnded(state, tally, now) } : { state }
}

/** Stops an operation, or lets it go on. */
export function changing(
  before: OperationState,
  change: 'stop' | 'continue',
  tally: OperationTally,
  by: By,
  now: number,
): Transition {
  const state = change === 'stop' ? stopped(before, by, now) : continued(before, tally, now)
  const type = change === 'stop' ? 'operation_stopped' : 'operation_continued'
  return state === before ? { state } : { state, entry: operationRecordOf(type, state, by, now) }
}

/** Notes this number of members as put back. */
export function undoing(before: OperationState, count: number, by: By, now: number): Transition {
  const state = undone(before, count, by, now)
  return count === 0 ? { state } : { state, entry: operationRecordOf('operation_undone', state, by, now) }
}
