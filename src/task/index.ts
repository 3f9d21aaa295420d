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

// Below is what other folders use, and no user needs: it is left out of the declarations.

/** @internal */
export { Ending } from './ending.js'
/** @internal */
export { Outages } from './outages.js'
/** @internal */
export { persistently } from './persistently.js'
/** @internal */
export { type RunEnvironment, TaskRun } from './task-run.js'
