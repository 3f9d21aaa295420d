// For the other folders of this package. Users import from index.ts.

export { type Content, contentOf, eventIn } from './event-in-letter.js'
export { LetterCopies } from './letter-copies.js'
export type { OutboxStore } from './outbox.js'
export { COPIES, type KeptMessage, type RequeueHooks, requeueTarget } from './requeue-work.js'
export type { Route, Routes } from './route.js'
export type { Version } from './wait-for-version.js'
