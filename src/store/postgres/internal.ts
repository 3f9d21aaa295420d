// For the other folders of this package. Users import from index.ts.

export { isPool, readStoreUrl } from './store-url.js'
