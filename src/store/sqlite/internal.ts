// For the other folders of this package. Users import from index.ts.

export { backupSqlite } from './backup.js'
export { type Connection, loadDriver, sqliteCode } from './driver.js'
export { waitingForLock } from './lock.js'
// With all verbs of the contract.
export { openSqlite } from './open-sqlite.js'
export { SqliteStore } from './sqlite-store.js'
export { sqliteFile } from './store-path.js'
