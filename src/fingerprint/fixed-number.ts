import type { Pattern } from './pattern.js'
import { ANSWERED, NUMBERED, REASONS, UNITS, VERBS } from './vocabulary.js'

const STATUS = /^[1-5]\d\d$/
/** An enhanced status code of SMTP, or a name such as `PRECONDITION-FAILED`. */
const EXPLAINED = / [(]?(?:[245]\.\d{1,3}\.\d{1,3}|[A-Z]{2,20}(?:-[A-Z]{2,20}){1,3})(?=[ ),;:]|$)/y
const ENHANCED = /^[245]\.\d{1,3}\.\d{1,3}$/
const REPLY = /^[245]\d\d$/
const LONG_REPLY = /^[245]\d\d-[245]\.\d{1,3}\.\d{1,3}$/
const PLURAL = /^[a-z]{2,}[b-hj-rtv-z]s$/
const SQLSTATE = /^[\dA-Z]{5}$/

/** Whether a number is part of the pattern: a status, an exit code, a signal. `end` is the index behind it. */
export function isFixedNumber(number: string, text: string, end: number, { last, isEmpty }: Pattern): boolean {
  if (number.length > 5 || number.includes('*')) return false
  const before = last.toLowerCase()
  const digits = NUMBERED.get(before)
  if (digits !== undefined && number.length <= digits) return true
  if (!STATUS.test(number)) return false
  if (isEmpty || ANSWERED.has(before)) return true
  EXPLAINED.lastIndex = end
  return EXPLAINED.test(text) || hasReason(number, text, end)
}

/** Whether the reason phrase of a status follows it: `502 Bad Gateway`. */
function hasReason(status: string, text: string, end: number): boolean {
  const reason = REASONS[status]
  return reason !== undefined && (text.startsWith(` ${reason}`, end) || text.startsWith(` (${reason}`, end))
}

/** Whether the last word is a number that was taken for a status, but would count what a plural after it names. */
export function isCount({ last, beforeLast }: Pattern): boolean {
  return last.length === 3 && STATUS.test(last) && (beforeLast === '' || ANSWERED.has(beforeLast.toLowerCase()))
}

/** Whether a number before this word counts something: a unit, or a plural. */
export function isCounted(word: string): boolean {
  return PLURAL.test(word) ? !VERBS.has(word) : UNITS.has(word.toLowerCase())
}

/** Whether a word with digits is a code after its sort: an SQLSTATE, or an enhanced status code of SMTP. */
export function isReplyCode(word: string, last: string): boolean {
  if (last === 'SQLSTATE' && SQLSTATE.test(word)) return true
  return LONG_REPLY.test(word) || (REPLY.test(last) && ENHANCED.test(word))
}
