export {
  RunBusyError,
  RunEndedError,
  RunExistsError,
  RunNotFoundError,
  type RunRecord,
  type RunStatus,
} from '../store/internal.js'
export type { RateInput } from '../task/index.js'
export { type BatchHandler, type BatchOptions, batch } from './batch.js'
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
export { type JsonlOptions, jsonl } from './jsonl.js'
export { Pipeline, type PipelineName, type PipelineOptions, pipeline } from './pipeline.js'
export type { ItemResult, RunHandle } from './run-handle.js'
export type {
  LiveOptions,
  OnEnd,
  ResumeOptions,
  RunEnd,
  RunOptions,
  WorkOptions,
} from './run-options.js'
export { RunResult, successRate } from './run-result.js'
export type { Snapshot } from './snapshot.js'
export type { ResumableSource, Source, SourceItem } from './source.js'
export {
  type BatchWork,
  type EachWork,
  type Stage,
  type StageCode,
  type StageHandler,
  type StageOptions,
  stage,
} from './stage.js'
export type { BatchContext, StageContext } from './stage-context.js'
