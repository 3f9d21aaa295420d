export {
  RunBusyError,
  RunEndedError,
  RunExistsError,
  RunNotFoundError,
  type RunRecord,
  type RunStatus,
} from '../store/internal.js'
export { type BatchHandler, batch } from './batch.js'
export {
  BatchResultError,
  FailureBudgetExceededError,
  RunInterruptedError,
  RunNotCompletedError,
  SourceChangedError,
  SourceItemError,
  StageCostError,
  StageGoneError,
  StageValueError,
} from './errors.js'
export { jsonl } from './jsonl.js'
export { Pipeline, pipeline } from './pipeline.js'
export type { RunHandle } from './run-handle.js'
export type { RunEnd, RunOptions } from './run-options.js'
export { RunResult, successRate } from './run-result.js'
export type { Snapshot } from './snapshot.js'
export type { ResumableSource, Source, SourceItem } from './source.js'
export { type Stage, type StageHandler, stage } from './stage.js'
export type { BatchContext, StageContext } from './stage-context.js'
