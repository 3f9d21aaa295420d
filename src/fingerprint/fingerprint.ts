import { createHash } from 'node:crypto'
import { shownText } from '../codec/internal.js'
import { maskMessage } from './mask-message.js'
import { MASK } from './mask-word.js'
import { isBug, ownFrames } from './own-frames.js'
import { NO_RULES, type PatternRules } from './pattern-rules.js'
import { readablePattern } from './readable-pattern.js'
import { FINGERPRINT_VERSION } from './version.js'

/** A failure as it is on record. */
export interface RecordedFailure {
  /** The kind of the task. */
  readonly kind: string
  /** The code of the verdict. */
  readonly code: string | undefined
  /** `Name: message`, bounded and redacted, as the ledger has it. */
  readonly error: string | undefined
  /** A line for each frame, as the ledger has it. Counts for bugs alone. */
  readonly stack?: string | undefined
}

/** The facts that failures of one group have in common. */
export interface Fingerprint {
  /** The version of the algorithm and a hash: `1-9c2f0b7d41aa83e6`. */
  readonly id: string
  /** The kind of the task. */
  readonly kind: string
  /** The code of the verdict. Empty where there is none. */
  readonly code: string
  /** The class of the error. Empty where none was recorded. */
  readonly errorName: string
  /** The masked message, with the punctuation of a message that has it. The id depends on its words alone. */
  readonly pattern: string
  /** The user's own frames, of a bug: at most two. */
  readonly frames: readonly string[]
}

/**
 * The fingerprint of a failure: failures that differ only in what varies, such as ids and times, have the same. It depends on
 * nothing but what is on record, so a rebuild from the ledger gives the same groups.
 *
 * Frames count for bugs alone. For outages they would split one cause by the place that met it, and they change with every
 * refactoring, so that an error that comes back would look new. Nor do they count where a rule says what is one. The step of a
 * task that failed always counts, beside its message.
 */
export function fingerprint(failure: RecordedFailure, rules: PatternRules = NO_RULES): Fingerprint {
  const { kind, code = '', stack } = failure
  const error = shownText(failure.error ?? '')
  const last = recent.get(error)
  if (last?.kind === kind && last.code === code && last.stack === stack && last.rules === rules) return last.print
  const print = computed(kind, code, error, stack, rules)
  if (recent.size >= MAX_RECENT) recent.clear()
  recent.set(error, { kind, code, stack, rules, print })
  return print
}

/** Failures of the last texts: in an outage all fail with the same one, and masking is most of the cost. */
const recent = new Map<string, RecentFailure>()

interface RecentFailure {
  readonly kind: string
  readonly code: string
  readonly stack: string | undefined
  readonly rules: PatternRules
  readonly print: Fingerprint
}

function computed(
  kind: string,
  code: string,
  error: string,
  stack: string | undefined,
  rules: PatternRules,
): Fingerprint {
  const { errorName, message: whole } = parts(error)
  const [prefix = '', step] = STEP.exec(whole) ?? []
  const message = whole.slice(prefix.length)
  const ruled = rules.patternOf(kind, message)
  const bare = ruled ?? maskMessage(message)
  const frames = ruled === undefined && stack !== undefined && isBug(error) ? ownFrames(stack) : []
  // Unambiguous by the lengths, and cheaper than the JSON that is hashed.
  const of = step === undefined ? '' : stepPattern(step)
  const key = `${kind.length},${errorName.length},${code.length},${bare.length},${of.length},${kind}${errorName}${code}${bare}${of}${frames.join('\n')}`
  const facts = [kind, errorName, code, bare, frames, ...(step === undefined ? [] : [of])]
  const { id, pattern } = known.get(key) ?? keep(key, facts, of + (ruled ?? readablePattern(message, bare)))
  return { id, kind, code, errorName, pattern, frames }
}

/** Ids and patterns that were computed last: work fails in few ways, and a hash costs as much as all the rest. */
const known = new Map<string, Pick<Fingerprint, 'id' | 'pattern'>>()
const MAX_KNOWN = 1000
const MAX_RECENT = 500

function keep(key: string, facts: readonly unknown[], pattern: string): Pick<Fingerprint, 'id' | 'pattern'> {
  const hashed = JSON.stringify([FINGERPRINT_VERSION, ...facts])
  const hash = createHash('sha256').update(hashed).digest('hex').slice(0, 16)
  const kept = { id: `${FINGERPRINT_VERSION}-${hash}`, pattern }
  if (known.size >= MAX_KNOWN) known.clear()
  known.set(key, kept)
  return kept
}

/** The step of a task that failed, as its recorded error names it. */
const STEP = /^step '([^']{1,200})'(?:: |$)/

/** The pattern of a group without its step: that of the message alone, as rules have it. */
export function messagePattern(pattern: string): string {
  return pattern.replace(STEP, '')
}

/** The same for all steps of a loop, whose names differ in numbers. */
function stepPattern(step: string): string {
  return `step '${step.replace(/\d+/g, MASK)}': `
}

/** A name has no spaces, but Node adds a code to its own: `TypeError [ERR_INVALID_ARG_TYPE]`. */
const NAME = /^([^\s:]{1,100}(?: \[\w{1,100}\])?)(?:: |$)/

/** The class and the message of a recorded error. A text that does not begin with a class is a message. */
function parts(error: string): { errorName: string; message: string } {
  const [head, name] = NAME.exec(error) ?? []
  return head === undefined || name === undefined
    ? { errorName: '', message: error }
    : { errorName: name, message: error.slice(head.length) }
}
