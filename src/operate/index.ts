export { eventIn, type KeptMessage, type Route, type Routes } from '../event/internal.js'
export { OperationNotFoundError, type OperationRecord } from '../store/internal.js'
export type { Interval } from './binomial-interval.js'
export { type Cancelled, cancelTasks } from './cancel-tasks.js'
export type { Remark } from './cause.js'
export { countTasks, type TaskCountView } from './count-tasks.js'
export { type Discarded, type DiscardOptions, type DiscardPlan, discardDeadLetters, planDiscard } from './discard.js'
export type { Percentiles } from './duration-histogram.js'
export {
  GroupNotFoundError,
  NoFailedQueueError,
  NoRouteError,
  OperationInterruptedError,
  QueueBusyError,
} from './errors.js'
export { type Examination, examineBus } from './examine-bus.js'
export { explainTask, type TaskExplanation } from './explain-task.js'
export { type ExportOptions, exportFailedQueue } from './export.js'
export {
  type FailedQueue,
  type FailedQueues,
  failedQueues,
  findFailedQueue,
  type KnownQueues,
} from './failed-queues.js'
export { type FollowAuditOptions, followAudit } from './follow-audit.js'
export {
  explainGroup,
  type GroupExplanation,
  type GroupLifeView,
  type GroupRuleView,
  type GroupView,
  listGroups,
} from './groups.js'
export { type LaneGate, type LaneState, type LaneView, listLanes, type PauseView } from './lanes.js'
export { type BudgetView, listBudgets } from './list-budgets.js'
export { type MessageView, messageView } from './message-view.js'
export { type OperationView, operationOutcome } from './operation-view.js'
export {
  type ActOptions,
  type OperationPlan,
  type PlanOptions,
  planOperation,
  type RunOperationOptions,
  runOperation,
  type StartOptions,
  startOperation,
  undoOperation,
} from './operations.js'
export type { PayloadReport, TaskSchema } from './payload-report.js'
export { planRedrive, type RedrivePlan } from './plan-redrive.js'
export { previewRules, type RegroupPreview } from './preview-rules.js'
export { type Pruned, type PruneOptions, pruneStore } from './prune-store.js'
export { type Purged, purgeFailedQueue } from './purge.js'
export { type Redriven, type RedriveOptions, redriveDeadLetters } from './redrive.js'
export { type FixOptions, redriveWhenFixed } from './redrive-when-fixed.js'
export type { Refusal } from './refusal.js'
export {
  planReprocess,
  type Reprocessed,
  type ReprocessPlan,
  type ReprocessRunOptions,
  type ReprocessSelection,
  reprocess,
} from './reprocess.js'
export {
  type OperationRecording,
  planRequeue,
  type Requeued,
  type RequeueOptions,
  type RequeuePlan,
  type RequeueTarget,
  requeueFailedQueue,
  type StartRequeueOptions,
  startRequeue,
} from './requeue.js'
export { writeResults } from './result-file.js'
export { openResultLog, ResultFileError, type ResultLog } from './result-log.js'
export type { ResultOptions } from './results-in-order.js'
export { type ReportOptions, type RunReport, reportRun } from './run-report.js'
export type { AttemptYield, ErrorCount, RetryBucket } from './run-tally.js'
export { type RunView, runView } from './run-view.js'
export {
  type BackfillOptions,
  type BackfillPlan,
  type BackfillRange,
  backfillSchedule,
  findSchedule,
  listSchedules,
  pauseSchedule,
  planBackfill,
  removeSchedule,
  resumeSchedule,
  runSchedule,
  ScheduleNotFoundError,
  type ScheduleView,
  type SlotView,
  setSchedule,
} from './schedules.js'
export {
  groupFailedQueue,
  groupFailures,
  type LookOptions,
  type SeenFailure,
  type SeenGroup,
  type SeenGroups,
} from './seen-groups.js'
export type { LetterSelection } from './selection.js'
export { type StageName, setRates } from './set-rates.js'
export type { StageReport } from './stage-tally.js'
export { type KindFigures, type StoreFigures, storeFigures } from './stats.js'
export { type LedgerRowView, ledgerRowView, type TaskView, taskView } from './task-view.js'
export { listTasks, walkTasks } from './tasks.js'
export { type TaskScope, type UntilEmptyOptions, untilEmpty } from './until-empty.js'
export { type Discrepancy, type RecordProblem, type Verification, type VerifyOptions, verify } from './verify.js'
export { type FailedQueueOptions, type WalkOptions, walkFailedQueue } from './walk.js'
export { type Why, why } from './why.js'
export type { Fact, WhyAction, WhyCause } from './why-cause.js'
export { listWorkers, type WorkerView } from './workers.js'
export { type PolicyAdvice, reportYields, type YieldOptions, type YieldReport, type YieldView } from './yield-report.js'
