// For the other folders of this package. Users import from index.ts.

export { InHand } from './in-hand.js'
