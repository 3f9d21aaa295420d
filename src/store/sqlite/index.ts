export type { BackupOptions } from './backup.js'
export { openSqlite, type SqliteOptions } from './open-sqlite.js'
export { SqliteStore } from './sqlite-store.js'
