// For the other folders of this package. Users import from index.ts.

export { Ending } from './ending.js'
export { Engine } from './engine.js'
export { entryOf, outcomeOf } from './settlement.js'
export { taskKind, taskResult } from './task-kind.js'
export { toMs } from './to-ms.js'
export type { WorkKind } from './work-kind.js'
