// For the other folders of this package. Users import from index.ts.

export { runsAlone } from './after-settlement.js'
export { recordRedrive } from './redrive-record.js'
