// For the other folders of this package. Users import from index.ts.

export { REDACTED } from './secrets.js'
export { emit } from './sink.js'
export { areStacksFrequent, failureStack } from './stack.js'
export { isTraceparent, readTraceparent, traceIdOf, traceparentOf } from './traceparent.js'
export { type AbandonedReason, abandonedReason, REASON_LABELS, reasonLabel } from './wire-reason.js'
export type {
  AttemptEvent,
  CollectionReport,
  CollectionSwept,
  CoverageChecked,
  GateClosed,
  GateOpened,
  IdempotencyNotRecorded,
  IdempotencyUsed,
  LeaseLost,
  Overran,
  OverrunReason,
  ResultNotKept,
  RunEnded,
  RunStarted,
  Skipped,
  Superseded,
  SweepEnded,
  Swept,
} from './work-events.js'
