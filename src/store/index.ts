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
} from './contract/budget-store.js'
export type {
  Beat,
  Claim,
  ClaimedTask,
  ClaimRequest,
  Heartbeat,
  Outcome,
  Room,
  Settled,
  Settlement,
} from './contract/claim.js'
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
} from './contract/errors.js'
export type { GroupRule, GroupRuleStore, GroupRules, NewGroupRule, Regrouping } from './contract/group-rule.js'
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
} from './contract/group-store.js'
export type { Lane, LaneLimits, LaneRecord, LaneSelection, Rate, SharedLimits } from './contract/lane.js'
export type { LaneRuleReader, LaneRules, LimitRule, PauseRule } from './contract/lane-rule.js'
export type { AttemptEntry, Before, By, LedgerRow } from './contract/ledger.js'
export type { CountField, KindStats, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from './contract/list.js'
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
} from './contract/operation-store.js'
export type { Prunable, PrunableReader } from './contract/prunable.js'
export type { RetryYield } from './contract/retry-yield.js'
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
} from './contract/run-store.js'
export type { Storable } from './contract/storable.js'
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
} from './contract/store.js'
export type { Cost, Enqueued, NewTask, TaskRecord, TaskStatus } from './contract/task.js'
export type { StandingReader, TaskStanding } from './contract/task-standing.js'
export type { WorkerReader, WorkerRecord, WorkerReport } from './contract/worker-store.js'
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
export type { AttemptTraces } from './rules/attempt-traces.js'
export { OperationNotFoundError } from './rules/operations/errors.js'
export type { OperatorRecord } from './rules/operator-record.js'
export type { RedriveRecord } from './rules/redrive-record.js'
export { RunBusyError, RunEndedError, RunExistsError, RunNotFoundError } from './rules/runs/errors.js'
export { type EndStatus, runStatus } from './rules/runs/run-status.js'
export { taskIds } from './rules/task-id.js'
