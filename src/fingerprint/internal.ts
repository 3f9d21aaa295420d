// For the other folders of this package.

export { type Fingerprint, fingerprint, type RecordedFailure } from './fingerprint.js'
export { isBug, ownPlace } from './own-frames.js'
export { NO_RULES, type PatternRule, PatternRules } from './pattern-rules.js'
export { FINGERPRINT_VERSION } from './version.js'
