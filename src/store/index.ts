export type { BudgetRecord } from './contract/budget-store.js'
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
export type { GroupRecord } from './contract/group-store.js'
export type { Lane, LaneLimits, LaneRecord, LaneSelection } from './contract/lane.js'
export type { By, LedgerRow } from './contract/ledger.js'
export type { Page, PageRequest, TaskFilter } from './contract/list.js'
export type { Store } from './contract/public-store.js'
export type { Retention } from './contract/store.js'
export type { Enqueued, NewTask, TaskRecord, TaskStatus } from './contract/task.js'
export { MemoryStore } from './memory/public-memory-store.js'
export { type Move, moveStore, planMove } from './move/move.js'
