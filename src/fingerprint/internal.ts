// For the other folders of this package.

export { FINGERPRINT_VERSION, type Fingerprint, fingerprint, type RecordedFailure } from './fingerprint.js'
export { isBug, ownPlace } from './own-frames.js'
