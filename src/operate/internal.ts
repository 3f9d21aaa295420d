// For the other folders of this package. Users import from index.ts.

export { type BudgetReader, openGates, withGated } from './gates.js'
export { stateOf } from './lanes.js'
export { findSame, isUnderWay, runUntilStopped } from './operations.js'
export { pagesOf } from './pages.js'
export { payloadProblem } from './payload-report.js'
export { recordProblems } from './record-problems.js'
export { isText } from './refusal.js'
export { ratesOfRun } from './set-rates.js'
export { readTrial } from './trial.js'
export { type Expectation, estimate, type TrialEstimate } from './trial-estimate.js'
export { failureWords } from './why-text.js'
