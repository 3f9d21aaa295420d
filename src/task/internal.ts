// For the other folders of this package. Users import from index.ts.

export { Bell } from './bell.js'
export { Ending } from './ending.js'
export { Engine } from './engine.js'
export type { KeptAsJson } from './json-type.js'
export { isLater, isSkip } from './outcomes.js'
export { toRates } from './rate.js'
export { releaseOf } from './release.js'
export type { RunFollower, RunNews } from './run-keeper.js'
export { entryOf, outcomeOf } from './settlement.js'
export { taskKind, taskResult } from './task-kind.js'
export { toMs } from './to-ms.js'
export type { AttemptRecorder, KindOptions, WorkKind } from './work-kind.js'
