// For the other folders of this package. Users import from index.ts.

export { newRegistry } from './prom-client.js'
