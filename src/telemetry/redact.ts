import { withoutSecrets } from './secrets.js'

/** The maximum length of a text in a record. */
const MAX_TEXT = 1000
/**
 * The part of a text that is searched for secrets. It is longer than the kept part, so that a cut hides no secret's
 * mark.
 */
const WINDOW = 4 * MAX_TEXT

/** Replaces secrets in a text, puts it on one line, and cuts it to the length that a record can hold. */
export function redact(text: string): string {
  const seen = withoutSecrets(text.slice(0, WINDOW))
  // Drop the last word: it may be the first half of a secret that only its end would reveal.
  const safe = text.length > WINDOW ? seen.replace(/\S{0,500}$/, '') : seen
  return cut(oneLine(safe), MAX_TEXT, text.length)
}

/** Cuts a name or other short text to a length, on one line. */
export function label(text: string, max = 200): string {
  return cut(oneLine(text.slice(0, max + 1)), max, text.length)
}

/** Most texts are printable ASCII, and need no closer look. */
const PLAIN = /^[ -~]*$/

/**
 * Replaces line breaks and tabs by spaces. Characters that could control a terminal, change the direction of text or
 * break an encoding become the replacement character.
 */
function oneLine(text: string): string {
  if (PLAIN.test(text)) return text
  return text
    .replace(/[\t\n\v\f\r\x85\u2028\u2029]+/g, ' ')
    .replace(/[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')
}

function cut(text: string, max: number, length: number): string {
  if (text.length <= max && length <= WINDOW) return text
  // Do not keep half of a surrogate pair.
  const kept = text.slice(0, max).replace(/[\ud800-\udbff]$/, '')
  return `${kept}… (${length} characters)`
}
