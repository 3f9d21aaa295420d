export type { AttemptTraces } from './attempt-traces.js'
export type {
  Budget,
  BudgetRecord,
  BudgetScope,
  BudgetStore,
  FailureBudget,
  GateCause,
  GateChange,
  GateRecord,
  GateState,
  RetryAllowance,
  RetryRecord,
} from './budget-store.js'
export type { Beat, Claim, ClaimedTask, ClaimRequest, Heartbeat, Outcome, Room, Settled, Settlement } from './claim.js'
export {
  MoveDifferenceError,
  MoveRefusedError,
  OnceResultError,
  StaleFenceError,
  StoreBusyError,
  StoreClosedError,
  StoreDamagedError,
  StoreForbiddenError,
  StoreForeignError,
  StoreFullError,
  StoreNewerError,
  StoreNotReadyError,
  StoreReadOnlyError,
  StoreRefusedError,
  StoreReplacedError,
  StoreRolledBackError,
  StoreUnavailableError,
} from './errors.js'
export type { GroupRule, GroupRuleStore, GroupRules, NewGroupRule, Regrouping } from './group-rule.js'
export type {
  FailureGroup,
  GroupFilter,
  GroupLife,
  GroupMark,
  GroupRecord,
  GroupState,
  GroupStore,
  IgnoredUntil,
  LifeMark,
} from './group-store.js'
export type { Lane, LaneLimits, LaneRecord, LaneSelection, Rate, SharedLimits } from './lane.js'
export type { LaneRuleReader, LaneRules, LimitRule, PauseRule } from './lane-rule.js'
export type { AttemptEntry, Before, By, LedgerRow } from './ledger.js'
export type { CountField, KindStats, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from './list.js'
export { MemoryStore, type MemoryStoreOptions } from './memory/memory-store.js'
export type { Movable, MovedRow, Section } from './move/movable.js'
export {
  type Move,
  type MovedSection,
  type MoveOptions,
  type MoveProgress,
  moveStore,
  planMove,
  type SectionPlan,
} from './move/move.js'
export type {
  Age,
  DeathsRow,
  DocumentSet,
  FixedRelease,
  MessageSet,
  NewOperation,
  OperationAct,
  OperationMember,
  OperationProgress,
  OperationRecord,
  OperationSet,
  OperationSettings,
  OperationStatus,
  OperationStep,
  OperationStore,
  OperationTally,
  OutsideAct,
  OutsideSet,
  PayloadPatch,
  SurveyRow,
  TakenOperation,
  TaskAct,
  TaskSet,
} from './operation-store.js'
export { OperationNotFoundError } from './operations/errors.js'
export type { OperatorRecord } from './operator-record.js'
export type { Prunable, PrunableReader } from './prunable.js'
export type { RedriveRecord } from './redrive-record.js'
export type { RetryYield } from './retry-yield.js'
export type {
  BudgetStop,
  Chunk,
  ItemCounts,
  NewRun,
  OutputRow,
  ReprocessFilter,
  ReprocessOptions,
  RunChange,
  RunRecord,
  RunSettings,
  RunStatus,
  RunStore,
} from './run-store.js'
export { RunBusyError, RunEndedError, RunExistsError, RunNotFoundError } from './runs/errors.js'
export { type EndStatus, runStatus } from './runs/run-status.js'
export type { Storable } from './storable.js'
export type {
  AuditPage,
  AuditStore,
  LaneControl,
  OnceOptions,
  PolicyStore,
  Retention,
  Store,
  TaskControl,
  TaskReader,
  TaskVerbs,
} from './store.js'
export type { Cost, Enqueued, NewTask, TaskRecord, TaskStatus } from './task.js'
export { taskIds } from './task-id.js'
export type { StandingReader, TaskStanding } from './task-standing.js'
export type { WorkerReader, WorkerRecord, WorkerReport } from './worker-store.js'
