import type { Preparer } from './driver.js'
import { advanceStatements } from './statements/advance.js'
import { budgetStatements } from './statements/budgets.js'
import { claimStatements } from './statements/claim.js'
import { enqueueStatements } from './statements/enqueue.js'
import { groupStatements } from './statements/groups.js'
import { laneStatements } from './statements/lanes.js'
import { oncePerConnection } from './statements/once-per-connection.js'
import { operatorStatements } from './statements/operators.js'
import { recordStatements } from './statements/records.js'
import { retentionStatements } from './statements/retention.js'
import { settleStatements } from './statements/settle.js'
import { sharedLimitStatements } from './statements/shared-limits.js'
import { stepStatements } from './statements/steps.js'
import { uniqueStatements } from './statements/unique.js'
import { workerStatements } from './statements/workers.js'

/**
 * The statements of the store by name, prepared on one connection. Hot ones take their values by position.
 *
 * `OR FAIL`, in hot statements that change many rows: an error undoes the whole job anyway, so SQLite need not keep copies of
 * all pages that the statement changes, to undo it alone.
 *
 * `LIMIT ? + 0`: with a bare parameter there, the planner would look at its value and plan again for each.
 */
export type Statements = ReturnType<typeof prepare>

function prepare(db: Preparer) {
  return {
    ...enqueueStatements(db),
    ...claimStatements(db),
    ...workerStatements(db),
    ...settleStatements(db),
    ...advanceStatements(db),
    ...stepStatements(db),
    ...laneStatements(db),
    ...sharedLimitStatements(db),
    ...budgetStatements(db),
    ...operatorStatements(db),
    ...groupStatements(db),
    ...recordStatements(db),
    ...retentionStatements(db),
    ...uniqueStatements(db),
  }
}

/** The statements of a connection. */
export const statementsOf = oncePerConnection(prepare)
