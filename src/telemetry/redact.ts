import { withoutSecrets } from './secrets.js'

/** The longest text that a record keeps. */
const MAX_TEXT = 1000
/** The part of a text that is searched for secrets: more than is kept, so that a cut does not hide the mark of a secret. */
const WINDOW = 4 * MAX_TEXT

/** Text with secrets replaced, on one line, cut to a length that a record can hold. */
export function redact(text: string): string {
  const seen = withoutSecrets(text.slice(0, WINDOW))
  // The last word may be the half of a secret that is known by its end.
  const safe = text.length > WINDOW ? seen.replace(/\S{0,500}$/, '') : seen
  return cut(oneLine(safe), MAX_TEXT, text.length)
}

/** A name or other short text, on one line. */
export function label(text: string, max = 200): string {
  return cut(oneLine(text.slice(0, max + 1)), max, text.length)
}

/**
 * Line breaks and tabs become spaces; what could drive a terminal, turn the direction of a text or break an encoding
 * becomes a replacement character.
 */
function oneLine(text: string): string {
  return text
    .replace(/[\t\n\v\f\r\x85\u2028\u2029]+/g, ' ')
    .replace(/[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')
}

function cut(text: string, max: number, length: number): string {
  if (text.length <= max && length <= WINDOW) return text
  // Half of a character outside the basic plane is none.
  const kept = text.slice(0, max).replace(/[\ud800-\udbff]$/, '')
  return `${kept}… (${length} characters)`
}
