import type { By } from '../contract/ledger.js'
import { runsAlone } from '../rules/after-settlement.js'
import { type ArrangedAs, type Arrangement, arranged, arrangedRow } from '../rules/arrange.js'
import { State, statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import { writeLedger } from './ledger.js'
import type { WaitingRow } from './statements/operators.js'
import type { Statements } from './statements.js'

/** Changes when tasks that wait are due, and their priority, on record. Returns the ids that it changed. Within a transaction. */
export function arrange(
  statements: Statements,
  tasks: readonly Arrangement[],
  as: ArrangedAs,
  by: By,
  now: number,
  operation: string | undefined,
): string[] {
  const book = new LaneBook(statements)
  const changed = tasks.filter(wanted => {
    const row = statements.waiting.get(wanted.id)
    if (row === undefined || statusOf(row.state) !== 'waiting') return false
    const isOrdered = book.isOrdered(row.lane)
    const isDeferred = isOrdered && statements.lastOutcome.get(row.seq, row.entries) === 'deferred'
    const before = { ...row, isOrdered, isDeferred }
    const after = arranged(before, wanted, now)
    if (after === undefined) return false
    writeLedger(statements, row.seq, row.lane, row.entries, arrangedRow(as, before, by, now, operation))
    statements.arrange.run({ seq: row.seq, state: stateAt(row, after.nextAttemptAt, now), ...after })
    if (isOrdered) book.freeHead(row.lane, wanted.id)
    return true
  })
  book.write()
  return changed.map(({ id }) => id)
}

/** The state in which a task waits. A retry under a budget is budgeted until that has let it through. */
function stateAt(row: WaitingRow, nextAttemptAt: number, now: number): number {
  if (row.state === State.budgeted) return row.state
  if (nextAttemptAt > now) return State.scheduled
  return runsAlone(row) ? State.alone : State.ready
}
