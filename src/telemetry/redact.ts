/** The longest text that a record keeps. */
const MAX_TEXT = 1000
/** How much of a text is looked at: more than is kept, so that the cut does not hide what a secret is known by. */
const WINDOW = 4 * MAX_TEXT

const SECRET_WORD =
  'pass(?:word|wd|phrase|code)|pwd|secret|token|(?:api|access|private)[-_]?key|authorization|credential|session[-_]?id'
const SECRET_KEY = new RegExp(`${SECRET_WORD}|cookie`, 'i')
/** Quoted, quoted within a quoted text, a scheme and its credentials, or a word. */
const VALUE = `"(?:[^"\\\\]|\\\\.)*"?|'(?:[^'\\\\]|\\\\.)*'?|\\\\["'][^"'\\\\]*|(?:bearer|basic|digest|negotiate)\\s+[^\\s"',;]+|[^\\s"'&,;]+`

/** None of these goes over a part of a text again and again, so that a hostile text costs no more than another. */
const SECRETS: readonly [RegExp, string][] = [
  [/-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}-----)?/g, '[redacted]'],
  [/(:\/\/[^\s:/@]*):[^\s/"]*@/g, '$1:[redacted]@'],
  [/(cookie["']?\s*[=:]\s*)[^\r\n"]+/gi, '$1[redacted]'],
  [
    new RegExp(
      `((?:${SECRET_WORD})(?:s|[-_]?(?:key|value|hash|id))?["'\\\\]{0,4}\\s*[=:]\\s*)(?!\\[redacted])(?:${VALUE})`,
      'gi',
    ),
    '$1[redacted]',
  ],
  [/\b(bearer|basic)\s+(?!auth|credentials|scheme|token)[\w.~+/=-]{8,}/gi, '$1 [redacted]'],
  // Tokens that are known by their form: JWT, GitHub, Slack, AWS, and the `sk_` keys of several services.
  [
    /\b(?:eyJ[\w-]{8,500}\.[\w-]{8,}\.[\w-]*|(?:gh[pousr]|github_pat)_\w{16,}|xox[abeprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|sk[-_][\w-]{16,})/g,
    '[redacted]',
  ],
]

/** Text with what looks like a password, a token or a key replaced, on one line, cut to what a record can bear. */
export function redact(text: string): string {
  const seen = text.slice(0, WINDOW)
  const safe = SECRETS.reduce((result, [pattern, replacement]) => result.replace(pattern, replacement), seen)
  return cut(oneLine(safe), MAX_TEXT, text.length)
}

/** Whether a value under this key is better not written down. */
export function isSecretKey(key: string): boolean {
  return SECRET_KEY.test(key)
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
