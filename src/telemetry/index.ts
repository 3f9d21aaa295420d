export { describeFailure, type FailureDescription, failureText, redact } from './describe-failure.js'
export type {
  AttemptStarted,
  AttemptSucceeded,
  GaveUp,
  IdempotencyNotRecorded,
  IdempotencyUsed,
  RetryScheduled,
  TimedOut,
  Work,
  WorkEvent,
} from './events.js'
export { emit, fanOut, on, type Sink, sinkFailures } from './sink.js'
