// For the other folders of this package. Users import from index.ts.

export { Ending } from './ending.js'
export { Outages } from './outages.js'
export { persistently } from './persistently.js'
export { type RunEnvironment, TaskRun } from './task-run.js'
