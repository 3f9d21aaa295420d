import type { LedgerRow, TaskRecord } from '../store/index.js'

/**
 * Finds contradictions within the record of a task: fields that do not fit its status, and a ledger that has gaps or does
 * not account for the counters. A store writes none, so each shows damage from outside.
 */
export function recordProblems(task: TaskRecord, ledger: readonly LedgerRow[]): string[] {
  const checks = [...statusChecks(task, ledger), ...ledgerChecks(task, ledger)]
  return checks.flatMap(([holds, problem]) => (holds ? [] : [problem]))
}

/** Whether it holds, and the problem if it does not. */
type Check = readonly [holds: boolean, problem: string]

function statusChecks(task: TaskRecord, ledger: readonly LedgerRow[]): Check[] {
  const { status, nextAttemptAt, reason, result } = task
  // One that waits for its twin to end has no time yet.
  const hasTime = status === 'waiting' && task.isQueued !== true
  const mustHaveReason = status === 'dead' || status === 'skipped' || ledger.at(-1)?.outcome === 'discarded'
  // A success has one where its result was not kept.
  const mayHaveReason = mustHaveReason || (status === 'succeeded' && result === undefined)
  const isFitting = reason === undefined ? !mustHaveReason : mayHaveReason
  const checks: Check[] = [
    [(nextAttemptAt !== undefined) === hasTime, `it is ${status}, ${hasTime ? 'without' : 'with'} a next attempt`],
    [isFitting, `it is ${status}, ${reason === undefined ? 'without' : 'with'} a reason`],
  ]
  if (!isCleared(task)) return checks
  const error = task.errorClass ?? task.errorCode ?? task.errorMessage
  return [
    ...checks,
    [task.value === undefined, `it is ${status}, and has the value of a stage`],
    [error === undefined, `it is ${status}, and has an error`],
  ]
}

function ledgerChecks(task: TaskRecord, ledger: readonly LedgerRow[]): Check[] {
  const firstGap = ledger.findIndex(({ sequence }, index) => sequence !== index + 1)
  // An undo takes back the act in the row before it.
  const standing = ledger.filter((row, index) => row.outcome !== 'undone' && ledger[index + 1]?.outcome !== 'undone')
  // Every stage of an item begins afresh, and a success clears everything.
  const stage = isCleared(task) ? [] : standing.slice(standing.findLastIndex(row => row.outcome === 'advanced') + 1)
  const since = stage.slice(stage.findLastIndex(({ outcome }) => outcome === 'redriven') + 1)
  // A batch that was halved has made several attempts at the item that is left alone.
  const failed = since
    .filter(({ outcome }) => outcome === 'retry' || outcome === 'dead')
    .reduce((count, { attempt }) => Math.max(count + 1, attempt), 0)
  const deferred = since.filter(({ outcome }) => outcome === 'deferred').length
  const lost = stage.filter(({ outcome }) => outcome === 'lost').length
  // A redrive keeps the group.
  const group = stage.findLast(row => row.group !== undefined)?.group
  const differ = (noun: string, own: unknown, its: unknown): Check => [
    own === its,
    `it has ${noun} ${own ?? 'none'}, and its ledger ${its ?? 'none'}`,
  ]
  return [
    [firstGap < 0, `row ${firstGap + 1} of its ledger is missing`],
    differ('failed attempts:', task.attempts, failed),
    differ('deferrals:', task.deferrals, deferred),
    differ('losses:', task.losses, lost),
    differ('the failure group', task.group, group),
  ]
}

/** A success or a skip clears all counters and errors. */
function isCleared({ status }: TaskRecord): boolean {
  return status === 'succeeded' || status === 'skipped'
}
