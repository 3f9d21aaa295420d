export {
  type AuditRecord,
  auditRecord,
  type IdempotencyRecord,
  type RetryAttemptRecord,
  type RetryExhaustedRecord,
  type TimeoutRecord,
} from './audit.js'
export { describeFailure, type FailureDescription, failureText } from './describe-failure.js'
export { type ErrorType, errorType } from './error-type.js'
export { type Logger, logTo } from './logger.js'
export { type MemoryAudit, memoryAudit } from './memory-audit.js'
export { type NdjsonAudit, type NdjsonAuditOptions, ndjsonAudit, type RecordsDropped } from './ndjson-audit.js'
export {
  type RetryAlert,
  type RetryPattern,
  type RetryPatterns,
  type RetryPatternsOptions,
  retryPatterns,
} from './patterns.js'
export { redact } from './redact.js'
export { type Json, redactContext } from './redact-context.js'
export { withoutSecrets } from './secrets.js'
export { fanOut, on, type Sink, sinkFailures } from './sink.js'
export type {
  AttemptEvent,
  AttemptStarted,
  AttemptSucceeded,
  CollectionReport,
  CollectionSwept,
  CoverageChecked,
  GateClosed,
  GateOpened,
  GaveUp,
  IdempotencyNotRecorded,
  IdempotencyUsed,
  LeaseLost,
  Overran,
  OverrunReason,
  ResultNotKept,
  RetryScheduled,
  RunEnded,
  RunStarted,
  Skipped,
  SlotEnded,
  Superseded,
  SweepEnded,
  SweepEvent,
  Swept,
  TimedOut,
  Work,
  WorkEvent,
} from './work-events.js'
