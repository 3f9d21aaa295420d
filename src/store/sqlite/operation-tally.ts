import type { After } from '../rules/after-settlement.js'
import { memberTally } from '../rules/operations/member-tally.js'
import type { StandingRow } from './statements/standing-row.js'
import type { Statements } from './statements.js'

/** Adds the end of an attempt, or of a task, to the tally of the operation that moved it. Within a transaction. */
export function noteMember(
  statements: Statements,
  { seq, operation, answered }: Pick<StandingRow, 'seq' | 'operation' | 'answered'>,
  after: Pick<After, 'status' | 'ledger'>,
): void {
  if (operation === null) return
  const { isAnswered, ...tally } = memberTally(after, answered === 1)
  if (isAnswered && answered === 0) statements.answer.run(seq)
  statements.addTally.run({ operation, ...tally })
}
