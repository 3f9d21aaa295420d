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
export type { OnceOptions } from './once.js'
export { openSqlite, type SqliteOptions } from './open-sqlite.js'
export { SqliteStore } from './sqlite-store.js'
