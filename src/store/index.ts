export {
  MissingPackageError,
  StaleFenceError,
  StoreBusyError,
  StoreClosedError,
  StoreDamagedError,
  StoreForeignError,
  StoreFullError,
  StoreNewerError,
} from './errors.js'
export { MemoryStore } from './memory-store.js'
export type {
  AttemptEntry,
  Claim,
  ClaimedTask,
  ClaimRequest,
  Enqueued,
  Heartbeat,
  Lane,
  LaneLimits,
  LaneRecord,
  LedgerRow,
  NewTask,
  Outcome,
  Page,
  Settled,
  Settlement,
  Store,
  TaskFilter,
  TaskRecord,
  TaskStatus,
} from './store.js'
export { taskIds } from './task-id.js'
