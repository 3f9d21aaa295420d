// For the other folders of this package. Users import from index.ts.

export { collectionOf } from './collection.js'
