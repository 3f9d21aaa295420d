export type { Outage } from '../attempt/index.js'
export { type Codec, CodecError, compressed, encrypted } from '../codec/index.js'
export {
  type Death,
  type DrainResult,
  Later,
  LeaseLostError,
  later,
  Skip,
  type StepContext,
  StepError,
  StepFailedError,
  skip,
  TaskCancelledError,
  WorkerStoppedError,
} from '../engine/internal.js'
export { BatchEndedError } from '../store/internal.js'
export type {
  BatchEnd,
  BatchItem,
  BatchItems,
  EnqueuedBatch,
  TaskBatch,
} from './batches.js'
export { type DeclaredTask, declareTask } from './declare-task.js'
export { defineTask, type TaskDefinition, type TaskHandler, type TaskOptions } from './define-task.js'
export { PayloadError, ResultError, TaskKindError, TaskNotFoundError, TaskNotSucceededError } from './errors.js'
export type { JointContext, JointDefinition, JointHandler } from './joint-task.js'
export type { StandardSchema } from './standard-schema.js'
export { storeAudit } from './store-audit.js'
export type { TaskContext } from './task-context.js'
export { type DeadLetter, type EnqueueOptions, TaskQueue } from './task-queue.js'
export type { Task } from './task-result.js'
export { Worker, type WorkerOptions } from './worker.js'
