export { type AuditRecord, auditRecord } from './audit.js'
export { describeFailure, failureText } from './describe-failure.js'
export { type ErrorType, errorType } from './error-type.js'
export { type Logger, logTo } from './logger.js'
export { type MemoryAudit, memoryAudit } from './memory-audit.js'
export { type NdjsonAudit, type NdjsonAuditOptions, ndjsonAudit } from './ndjson-audit.js'
export {
  type RetryAlert,
  type RetryPattern,
  type RetryPatterns,
  type RetryPatternsOptions,
  retryPatterns,
} from './patterns.js'
export { redact } from './redact.js'
export { redactContext } from './redact-context.js'
export { withoutSecrets } from './secrets.js'
export { fanOut, on, type Sink, sinkFailures } from './sink.js'
export type {
  AttemptStarted,
  AttemptSucceeded,
  GaveUp,
  RetryScheduled,
  SlotEnded,
  TimedOut,
  Work,
  WorkEvent,
} from './work-events.js'
