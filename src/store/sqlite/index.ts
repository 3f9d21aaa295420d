export type { SqliteOptions } from './open-sqlite.js'
export { openSqlite, type SqliteStore } from './public-sqlite.js'
