// For the other folders of this package. Users import from index.ts.

export { hostIn } from './broker-url.js'
export type { UnreadableHeaders } from './bus.js'
export { InHand } from './in-hand.js'
export { textOrBase64 } from './message.js'
