export type { BackupOptions } from './backup.js'
export type { SqliteOptions } from './open-sqlite.js'
export { openSqlite, type SqliteStore } from './public-sqlite.js'
