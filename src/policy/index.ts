export { canonicalJson } from './canonical-json.js'
export { type Classifier, type ClassifierRules, classify } from './classify.js'
export { advance, begin, type Circumstances, decide, decideLoss } from './decide.js'
export { type Duration, formatDuration, parseDuration } from './duration.js'
export { OptionError, PolicyError, RedriveError, RetryableError, TimeoutError } from './errors.js'
export { type AttemptTimes, type Explanation, explain } from './explain.js'
export { extendPolicy } from './extend-policy.js'
export { FinalError } from './final-error.js'
export { hashJson } from './hash.js'
export { MissingPackageError } from './missing-package-error.js'
export { policies } from './named-policies.js'
export { policy } from './parse.js'
export type {
  Backoff,
  BackoffInput,
  Decision,
  ErrorClass,
  FailureMatch,
  GiveUpReason,
  History,
  Jitter,
  Policy,
  PolicyInput,
  Verdict,
} from './policy.js'
export { identityRandom } from './random.js'
export { RateLimitedError } from './rate-limited-error.js'
