// For the other folders of this package.

export { type Fingerprint, fingerprint } from './fingerprint.js'
export { isBug, ownPlace } from './own-frames.js'
export { NO_RULES, PatternRules } from './pattern-rules.js'
