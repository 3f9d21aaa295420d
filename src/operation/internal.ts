// For the other folders of this package.

export { type DriveOptions, driveOperation } from './drive-operation.js'
export { type FixWait, fixWait } from './fix-wait.js'
export { DOCUMENT_KIND, EVENT_KIND } from './made-payload.js'
export { hasUnended, outstanding } from './next-step.js'
export type { OutsideBatch, OutsideTarget, OutsideWork } from './outside-work.js'
export { PAYLOAD_INVALID, type PayloadChecks, payloadAfter, replacementProblem } from './payload-check.js'
export { refusalOf } from './refuse-member.js'
