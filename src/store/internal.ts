// For the other folders of this package. Users import from index.ts.

export { recordRedrive } from './redrive-record.js'
