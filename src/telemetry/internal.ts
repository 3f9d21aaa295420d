// For the other folders of this package. Users import from index.ts.

export { describedText, stepFailureText } from './describe-failure.js'
export type { ErrorType } from './error-type.js'
export { REDACTED } from './secrets.js'
export { emit } from './sink.js'
export { areStacksFrequent, failureStack } from './stack.js'
export { isTraceparent, readTraceparent, traceIdOf, traceparentOf } from './traceparent.js'
export { type AbandonedReason, abandonedReason, REASON_LABELS, reasonLabel } from './wire-reason.js'
export type {
  AttemptEvent,
  CollectionReport,
  CollectionSwept,
  Overran,
  OverrunReason,
  RetryScheduled,
  RunEnded,
  RunStarted,
} from './work-events.js'
