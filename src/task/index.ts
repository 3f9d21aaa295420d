export type { Outage } from '../attempt/index.js'
export {
  type DrainOptions,
  type DrainResult,
  LeaseLostError,
  type RetentionOptions,
  TaskCancelledError,
  WorkerStoppedError,
} from '../engine/internal.js'
export type { Death } from './death.js'
export type { DeclaredSchedule } from './declare-schedules.js'
export { type DeclaredTask, type DeclareOptions, declareTask } from './declare-task.js'
export { defineTask, type TaskDefinition, type TaskHandler, type TaskOptions } from './define-task.js'
export { PayloadError, ResultError, TaskKindError, TaskNotFoundError, TaskNotSucceededError } from './errors.js'
export { Later, later, Skip, skip } from './outcomes.js'
export type { RateInput } from './rate.js'
export type { StandardSchema } from './standard-schema.js'
export { storeAudit } from './store-audit.js'
export type { TaskBudget } from './task-budget.js'
export type { TaskContext } from './task-context.js'
export type { TaskLimits } from './task-limits.js'
export {
  type DeadLetter,
  type EnqueueOptions,
  TaskQueue,
  type TaskQueueOptions,
  type TaskResultOptions,
} from './task-queue.js'
export type { Task } from './task-result.js'
export { Worker, type WorkerOptions } from './worker.js'
