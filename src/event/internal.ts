// For the other folders of this package. Users import from index.ts.

export { type Content, contentOf, eventIn } from './event-in-letter.js'
export { LetterCopies } from './letter-copies.js'
export type { OutboxEvent, OutboxStore, RelayOptions } from './outbox.js'
export { COPIES, type KeptMessage, requeueTarget } from './requeue-work.js'
export type { Route, Routes } from './route.js'
export type { Version } from './wait-for-version.js'
