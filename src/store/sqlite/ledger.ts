import type { AttemptEntry } from '../contract/ledger.js'
import type { LedgerChange, LossDecision } from '../rules/ledger-change.js'
import type { Statements } from './statements.js'

/** Whether nothing was decided on an attempt and it has no trace of its own, so that its row has few columns. */
export function isPlain({ verdict, error, random, policy, trace, notes }: AttemptEntry): boolean {
  return (
    verdict === undefined &&
    error === undefined &&
    random === undefined &&
    policy === undefined &&
    trace === undefined &&
    notes === undefined
  )
}

/** Applies a change of the ledger of a task in a lane. `entries` is the number of rows that it had. */
export function writeLedger(
  statements: Statements,
  task: number,
  lane: number,
  entries: number,
  change: LedgerChange,
  group: string | undefined = undefined,
): void {
  if (change.type === 'complete') statements.complete.run(...decisionColumns(change.row), task, task)
  if (change.type !== 'append') return
  const { attempt, startedAt, endedAt, worker, outcome, version, call, stack, trace, release, before, notes } =
    change.row
  const about = [version, call, stack, trace, release, group].map(value => value ?? null)
  const attempted = [attempt, startedAt, endedAt, worker, ...about, outcome]
  const json = [before, notes].map(value => (value === undefined ? null : JSON.stringify(value)))
  statements.append.run(task, entries + 1, lane, ...attempted, ...decisionColumns(change.row), ...json)
}

/** The columns from `delay_ms` to `policy`. */
function decisionColumns({ delayMs, reason, verdict, error, random, policy }: LossDecision) {
  const retryAfterMs = verdict?.class === 'rate_limited' ? verdict.retryAfterMs : undefined
  const values = [delayMs, reason, verdict?.class, verdict?.code, retryAfterMs, error, random, policy]
  return values.map(value => value ?? null)
}
