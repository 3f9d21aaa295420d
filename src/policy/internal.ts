// For the other folders of this package. Users import from index.ts.

export { allowance } from './decide.js'
export { plainJson, problemOf } from './plain-json.js'
