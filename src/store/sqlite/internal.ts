// For the other folders of this package. Users import from index.ts.

export { backupSqlite } from './backup.js'
export { type Connection, loadDriver, sqliteCode } from './driver.js'
export { waitingForLock } from './lock.js'
export { sqliteFile } from './store-path.js'
