export { defineTask, type TaskDefinition, type TaskHandler, type TaskOptions } from './define-task.js'
export { LeaseLostError, PayloadError, TaskCancelledError, WorkerStoppedError } from './errors.js'
export type { RetentionOptions } from './janitor.js'
export type { Outage } from './outages.js'
export { Later, later, Skip, skip } from './outcomes.js'
export {
  type Redriven,
  type RedriveOptions,
  type RedriveRecord,
  type RedriveSelection,
  redriveDeadLetters,
} from './redrive.js'
export type { StandardSchema } from './standard-schema.js'
export { storeAudit } from './store-audit.js'
export type { TaskContext } from './task-context.js'
export { type DeadLetter, type EnqueueOptions, type Moment, TaskQueue } from './task-queue.js'
export { type Discrepancy, type Verification, verify } from './verify.js'
export { Worker, type WorkerOptions } from './worker.js'
