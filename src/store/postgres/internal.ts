// For the other folders of this package. Users import from index.ts.

export { cancelStatement } from './cancel-statement.js'
// With all verbs of the contract.
export { openPostgres } from './open-postgres.js'
export { PostgresStore } from './postgres-store.js'
export { isPool, readStoreUrl } from './store-url.js'
