import type { LedgerRow } from '../../contract/ledger.js'
import type { OperationTally } from '../../contract/operation-store.js'
import type { After } from '../after-settlement.js'
import { NO_TALLY } from './operation-rules.js'

/** Counted attempts. Deferrals, losses and releases say nothing about the work. */
const ANSWERS: ReadonlySet<LedgerRow['outcome']> = new Set(['succeeded', 'skipped', 'retry', 'dead'])

/**
 * Says what a settlement adds to the tally of the operation that moved the task. Its first counted attempt after the move is its
 * answer. An item of a pipeline answers with its first failure or at its end, not with each stage.
 */
export function memberTally(
  { status, ledger }: Pick<After, 'status' | 'ledger'>,
  wasAnswered: boolean,
): OperationTally & { readonly isAnswered: boolean } {
  const isAnswer = !wasAnswered && ledger.type === 'append' && ANSWERS.has(ledger.row.outcome)
  const isAnswered = wasAnswered || isAnswer
  const hasPassed = status === 'succeeded' || status === 'skipped'
  const tally = { ...NO_TALLY, passed: isAnswer && hasPassed ? 1 : 0, failed: isAnswer && !hasPassed ? 1 : 0 }
  if (status === 'waiting') return { ...tally, isAnswered }
  return { ...tally, [status]: 1, unanswered: isAnswered ? 0 : 1, isAnswered }
}

/** The sum of two tallies. */
export function addTally(a: OperationTally, b: OperationTally): OperationTally {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    unanswered: a.unanswered + b.unanswered,
    succeeded: a.succeeded + b.succeeded,
    skipped: a.skipped + b.skipped,
    dead: a.dead + b.dead,
    cancelled: a.cancelled + b.cancelled,
  }
}
