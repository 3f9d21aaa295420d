// For the other folders of this package.

export { type Fingerprint, fingerprint, messagePattern } from './fingerprint.js'
export { isBug, ownPlace } from './own-frames.js'
export { NO_RULES, PatternRules } from './pattern-rules.js'
