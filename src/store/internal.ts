// For the other folders of this package. Users import from index.ts.

export type { AttemptNotes, LiveNotes, LogLine, Progress } from './contract/attempt-notes.js'
export type {
  BatchChunk,
  BatchCount,
  BatchEndTask,
  BatchRecord,
  BatchStatus,
  BatchStore,
} from './contract/batch-store.js'
export type {
  Budget,
  BudgetScope,
  BudgetStore,
  CostBudget,
  CostRecord,
  FailureBudget,
  GateCause,
  GateChange,
  GateRecord,
  GateState,
  RetryAllowance,
  RetryRecord,
} from './contract/budget-store.js'
export {
  type Beat,
  type Claim,
  type ClaimedTask,
  type ClaimRequest,
  type Heartbeat,
  type Outcome,
  type Room,
  SETTLED,
  type Settled,
  type Settlement,
} from './contract/claim.js'
export type { CostField, CostFilter, CostTotal } from './contract/cost.js'
export type { GroupRule, NewGroupRule, Regrouping } from './contract/group-rule.js'
export type { FailureGroup, GroupFilter, GroupLife, GroupMark, GroupState, GroupStore } from './contract/group-store.js'
export type { Rate, SharedLimits } from './contract/lane.js'
export type { LaneRuleReader, LaneRules, LimitRule, PauseRule } from './contract/lane-rule.js'
export type { AttemptEntry } from './contract/ledger.js'
export type { Lifetime, LifetimeStore } from './contract/lifetime-store.js'
export type { CountField, KindStats, PayloadPart, StoreStats, TaskCount } from './contract/list.js'
export {
  AGES,
  type ArrangingAct,
  type DeathsRow,
  type DocumentSet,
  type FixedRelease,
  type MessageSet,
  MOVED,
  type NewOperation,
  type OpenSlot,
  type OperationAct,
  type OperationMember,
  type OperationProgress,
  type OperationRecord,
  type OperationSettings,
  type OperationStatus,
  type OperationStep,
  type OperationStore,
  type OutsideSet,
  type PayloadEdit,
  type PayloadPatch,
  type SlotSet,
  type TakenOperation,
  type TaskAct,
  type TaskSet,
  TWIN_RULES,
  type TwinRule,
} from './contract/operation-store.js'
export type { Prunable } from './contract/prunable.js'
export { contractOf } from './contract/public-store.js'
export type { AttemptEnd, RetriedTask } from './contract/retried-task.js'
export {
  type BudgetStop,
  type Chunk,
  type ItemCounts,
  type NewRun,
  type OutputRow,
  type ReprocessFilter,
  RUN_STATUSES,
  type RunRecord,
  type RunSettings,
  type RunStatus,
  type RunStore,
} from './contract/run-store.js'
export type {
  CatchUp,
  MissedSlots,
  Overlap,
  ScheduledTask,
  ScheduleRecord,
  ScheduleSpec,
  ScheduleStore,
  ScheduleTimes,
  SlotEnd,
  SlotRecord,
  StartedRun,
  Timetable,
  Timetables,
} from './contract/schedule-store.js'
export type { StepRow } from './contract/step.js'
export type { Storable } from './contract/storable.js'
export type {
  AuditStore,
  EndedStatus,
  JsonRecord,
  LaneControl,
  OnceOptions,
  StoreContract,
  TaskReader,
} from './contract/store.js'
export type { Cost, UniqueConflict, UniqueKey, UniqueScope } from './contract/task.js'
export type { StandingReader, TaskStanding } from './contract/task-standing.js'
export type { WorkerRecord, WorkerReport } from './contract/worker-store.js'
export { MemoryStore } from './memory/memory-store.js'
export type { Movable, MovedRow, Section } from './move/movable.js'
export type { MoveProgress } from './move/move.js'
export { FAILED_BY_HAND, runsAlone } from './rules/after-settlement.js'
export { type AttemptTraces, attemptTraces } from './rules/attempt-traces.js'
export { checkBatchName } from './rules/batches/check-batch.js'
export { BatchEndedError, BatchNotFoundError } from './rules/batches/errors.js'
export { addedId, batchesOf, batchOf, endId } from './rules/batches/members.js'
export { checkedBudget } from './rules/budgets/check-budget.js'
export { isCovering } from './rules/budgets/claim-gates.js'
export { checkIds } from './rules/check.js'
export { cursorAt } from './rules/cursor.js'
export { lostGroup } from './rules/groups/failure-group.js'
export { groupTitle } from './rules/groups/group-title.js'
export { hasFix } from './rules/groups/life.js'
export { isRunBy, isWorker } from './rules/is-worker.js'
export { objectText } from './rules/json-object.js'
export { notesOf } from './rules/notes-of.js'
export { checkNewOperation, checkPatch } from './rules/operations/check-operation.js'
export { OperationNotFoundError } from './rules/operations/errors.js'
export { HAS_RUN, isLasting, isOutside, refuseLasting } from './rules/operations/operation-rules.js'
export { lengthProblem, patchedPayload } from './rules/operations/patch-payload.js'
export { isSameLane } from './rules/operations/set.js'
export { isArranging, isOnLiving } from './rules/operator-acts.js'
export { limitRecord, type OperatorRecord } from './rules/operator-record.js'
export { ownValue } from './rules/own-value.js'
export { recordRedrive } from './rules/redrive-record.js'
export { ENDED_STATUSES } from './rules/retention.js'
export { RunBusyError, RunEndedError, RunExistsError, RunNotFoundError } from './rules/runs/errors.js'
export { isItem, itemKind, pipelineOf } from './rules/runs/items.js'
export { scheduleEffect } from './rules/schedules/change-schedule.js'
export { CATCH_UPS, checkScheduleName, OVERLAPS } from './rules/schedules/check-schedule.js'
export { isRunId as isSlotRunId, runId as slotRunId, spreadOf } from './rules/schedules/schedule-state.js'
export { checkedShared } from './rules/shared-limit.js'
export { type StepAttempt, type StepRecord, type StepState, stepRecord, withAttempt } from './rules/steps.js'
export { storableName } from './rules/storable-name.js'
export { sumOfCosts } from './rules/sum-of-costs.js'
export { syncFolder } from './sync-folder.js'
