// For the other folders of this package. Users import from index.ts.

// With all verbs of the contract.
export { openPostgres } from './open-postgres.js'
export { PostgresStore } from './postgres-store.js'
export { isPool, readStoreUrl } from './store-url.js'
