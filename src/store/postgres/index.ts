export type { SqlClient } from './driver.js'
export type { PostgresOptions } from './open-postgres.js'
export { openPostgres, type PostgresStore } from './public-postgres.js'
export type { PostgresTransaction } from './transaction.js'
