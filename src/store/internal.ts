// For the other folders of this package. Users import from index.ts.

export { NO_FAILURES, runsAlone } from './after-settlement.js'
export { attemptTraces } from './attempt-traces.js'
export { checkedBudget } from './budgets/check-budget.js'
export { isCovering } from './budgets/claim-gates.js'
export { SETTLED } from './claim.js'
export { groupTitle } from './groups/group-title.js'
export { hasFix } from './groups/life.js'
export { AGES } from './operation-store.js'
export { ownValue } from './own-value.js'
export { recordRedrive } from './redrive-record.js'
export { RUN_STATUSES } from './run-store.js'
export { checkedShared } from './shared-limit.js'
