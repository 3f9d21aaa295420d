// For the other folders of this package. Users import from index.ts.

export { isLater, isSkip } from '../engine/internal.js'
export type { DeclaredSchedule } from './declare-schedules.js'
export type { AnyDefinition } from './define-task.js'
export type { KeptAsJson } from './json-type.js'
export { checkMadeByStore } from './made-by-store.js'
export { payloadJson } from './payload-json.js'
export type { RateInput } from './rate.js'
export { toRates } from './rate.js'
export { payloadCheck } from './standard-schema.js'
export { taskKind, taskResult } from './task-kind.js'
export { checkedPriority, type Moment, toTime } from './task-queue.js'
export { toUniqueKey } from './task-unique.js'
