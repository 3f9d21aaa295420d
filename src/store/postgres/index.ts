export type { SqlClient } from './driver.js'
export { openPostgres, type PostgresOptions } from './open-postgres.js'
export { PostgresStore } from './postgres-store.js'
export type { PostgresTransaction } from './transaction.js'
