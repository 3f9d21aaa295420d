export { eventIn } from '../event/internal.js'
export { BatchNotFoundError, OperationNotFoundError, type OperationRecord } from '../store/internal.js'
export { type ArrangedTasks, prioritizeTasks, promoteTasks, rescheduleTasks } from './arrange-tasks.js'
export { type Backfilled, type BackfillPlan, backfillSchedule, planBackfill, startBackfill } from './backfill.js'
export {
  type BatchExplanation,
  type BatchView,
  closeBatch,
  findBatch,
  listBatches,
  listBatchTasks,
} from './batches.js'
export { type Cancelled, cancelTasks } from './cancel-tasks.js'
export { type CostTotalView, costTotals } from './cost-totals.js'
export { countTasks, type TaskCountView } from './count-tasks.js'
export { type Discarded, type DiscardPlan, discardDeadLetters, planDiscard } from './discard.js'
export {
  completeTasks,
  type DeletedTasks,
  type DeletionSelection,
  deleteTasks,
  type EndedTasks,
  failTasks,
} from './end-tasks.js'
export {
  GroupNotFoundError,
  NoFailedQueueError,
  NoRouteError,
  OperationInterruptedError,
  QueueBusyError,
} from './errors.js'
export { type Examination, examineBus } from './examine-bus.js'
export { explainTask, type TaskExplanation } from './explain-task.js'
export { exportFailedQueue } from './export.js'
export { type FailedQueue, type FailedQueues, failedQueues, findFailedQueue } from './failed-queues.js'
export { followAudit } from './follow-audit.js'
export { explainGroup, type GroupExplanation, type GroupView, listGroups } from './groups.js'
export { type LaneView, listLanes } from './lanes.js'
export { type BudgetView, listBudgets } from './list-budgets.js'
export { type MessageView, messageView } from './message-view.js'
export { operationOutcome } from './operation-view.js'
export { type OperationPlan, planOperation, runOperation, startOperation, undoOperation } from './operations.js'
export { planRedrive, type RedrivePlan } from './plan-redrive.js'
export { previewRules, type RegroupPreview } from './preview-rules.js'
export { type Pruned, pruneStore } from './prune-store.js'
export { type Purged, purgeFailedQueue } from './purge.js'
export { type Redriven, redriveDeadLetters } from './redrive.js'
export { redriveWhenFixed } from './redrive-when-fixed.js'
export type { Refusal } from './refusal.js'
export { planReprocess, type Reprocessed, type ReprocessPlan, reprocess } from './reprocess.js'
export { planRequeue, type Requeued, type RequeuePlan, requeueFailedQueue, startRequeue } from './requeue.js'
export { writeResults } from './result-file.js'
export { openResultLog, ResultFileError, type ResultLog } from './result-log.js'
export { type RunReport, reportRun } from './run-report.js'
export { type RunView, runView } from './run-view.js'
export {
  findSchedule,
  listSchedules,
  pauseSchedule,
  planSchedule,
  removeSchedule,
  resumeSchedule,
  runSchedule,
  ScheduleNotFoundError,
  type SchedulePlan,
  type ScheduleView,
  type SlotView,
  setSchedule,
} from './schedules.js'
export { groupFailedQueue, groupFailures, type SeenGroups } from './seen-groups.js'
export type { LetterSelection } from './selection.js'
export { setRates } from './set-rates.js'
export { type StoreFigures, storeFigures } from './stats.js'
export { type LedgerRowView, ledgerRowView, type TaskView, taskView } from './task-view.js'
export { listTasks, walkTasks } from './tasks.js'
export { untilEmpty } from './until-empty.js'
export { type Verification, verify } from './verify.js'
export { walkFailedQueue } from './walk.js'
export { type Why, why } from './why.js'
export { listWorkers, type WorkerView } from './workers.js'
export { reportYields, type YieldReport } from './yield-report.js'
