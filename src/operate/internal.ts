// For the other folders of this package. Users import from index.ts.

export type { Interval } from './binomial-interval.js'
export { readTrial } from './trial.js'
export { type Expectation, estimate, type TrialEstimate } from './trial-estimate.js'
