/** Stands in the place of a secret. */
export const REDACTED = '[redacted]'

/** Words that make a name secret wherever they occur in it: `dbPassword`, `X-Amz-Security-Token`. */
const WORD =
  'pass(?:word|wd|phrase|code)|pwd|secret|token|credential|authorization|cookie|signature|session(?:[-_. +]|%20)?id' +
  '|(?:api|access|account|private|shared|signing|encryption|subscription|master)(?:[-_. +]|%20)?key'
/**
 * Words that make a name secret only at its end: `DB_PASS`, `sig`, `cvc` and `cardNumber`, but not `bypass`, `passed`,
 * `signal`, `discardNumber` or `cardNumberLast4`. `pan`, the number of a card, must be the whole name.
 */
const LAST_WORD =
  '(?<!by|com)pass|(?<![a-z])(?:sig|auth|csc)|card[-_. ]?csc|cv[cv]|(?<![\\w-])pan' +
  '|(?<!dis|wild|post|score)card[-_. ]?(?:number|num|no)'

const SECRET_NAME = new RegExp(`${WORD}|(?:${LAST_WORD})\\d*$`, 'i')

/**
 * A secret name in a text, up to its value: `name=`, `"name": `, `name%3D`, `<name>`, `"name", ` before another quote,
 * and `--name ` for a flag. A value on the next line must be quoted or in brackets.
 */
const NAME_IN_TEXT = new RegExp(
  `(?:(?:${WORD})[\\w.-]{0,40}|(?:${LAST_WORD})\\d{0,9})` +
    '(?:["\'\\]\\\\]{0,4}\\s{0,9}(?:=>|[=:]|%3[ad])(?:\\s*(?=["\'`[{\\\\])|[^\\S\\r\\n]*)|["\']\\s*,\\s*(?=["\'])|>)' +
    `|--[\\w-]{0,40}?(?:${WORD}|pass)[\\w-]{0,40}\\s+(?!-)`,
  'gi',
)

const QUOTED = /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?/sy
/** A quoted text inside another quoted text. It ends at a quote with as many backslashes. */
const ESCAPED = /(\\+)(["']).*?(?:(?<!\\)\1\2|$)/sy
const LINE = /[^\r\n]*/y
/** An unquoted value: up to a space, `&`, `;` or `<`. A quote, comma or bracket ends it only if no value follows. */
const BARE = /(?:(?:bearer|basic|digest|negotiate)\s+)?(?:[^\s&;<"'`,)\]}]|["'`,)\]}](?=[^\s&;<"'`,:)\]}]))*/iy
const ONE_TOKEN = /(?:bearer|basic)\s/iy
/** In JSON, whether there is a secret is none: a patch with `null` removes it. */
const NO_SECRET = /null|true|false/y

/** Each match is consumed once, so that even a hostile text costs little more than any other. */
const SECRETS: readonly [RegExp, string | ((...groups: string[]) => string)][] = [
  [/-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-{4,5}.*?(?:-{4,5} ?END [A-Z0-9 ]{0,50}-{4,5}|$)/gs, REDACTED],
  [/[^\s"]+/g, withoutPassword],
  // A user without a password may be a token.
  [/:\/\/[^\s:/@?#"']+@/g, `://${REDACTED}@`],
]

/**
 * A word without the password of a URL. A port is followed by a path. Anything else between a colon and the last `@` is a password,
 * slashes included. A word without an `@` is not searched: each of its `://` would be followed to its end.
 */
function withoutPassword(word: string): string {
  const end = word.lastIndexOf('@') + 1
  if (end === 0) return word
  const address = word.slice(0, end).replace(/:\/\/([^:/@?#]*):(?!\d{1,5}[/?#]).*@/s, (_, user: string) => {
    return `://${user.length < LONG_USER ? user : REDACTED}:${REDACTED}@`
  })
  return address + word.slice(end)
}

/** A user name of this length is more likely a token, as in `https://TOKEN:x-oauth-basic@github.com`. */
const LONG_USER = 16

/** Secrets that are recognisable by their own form. */
const TOKENS: readonly [RegExp, string][] = [
  [/\b(bearer|basic)\s+(?!auth|credentials|scheme|token)[\w.~+/=-]{8,}/gi, `$1 ${REDACTED}`],
  // JWT, GitHub, GitLab, npm, Slack, AWS, Google, and the `sk_` keys of several services.
  [
    /\b(?:eyJ[\w-]{8,500}\.[\w-]{8,}\.[\w-]*|(?:gh[pousr]|github_pat|npm)_\w{16,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|sk[-_][\w-]{16,})/g,
    REDACTED,
  ],
]

/** Occurs in every text that the patterns above match. One search for it is ten times cheaper than theirs. */
const MARK = new RegExp(
  `${WORD}|pass|sig|auth|csc|cv[cv]|\\bpan\\d*\\b|card[-_. ]?n|://|PRIVATE KEY|bearer|basic|eyJ|gh[pousr]_|github_pat|npm_|glpat-|xox|A[KS]IA|AIza|sk[-_]`,
  'i',
)

/** Returns whether values under this name are secrets. */
export function isSecretKey(name: string): boolean {
  return SECRET_NAME.test(name)
}

/** Replaces everything in a text that looks like a password, a token, a key, a cookie or the number of a card. */
export function withoutSecrets(text: string): string {
  if (!MARK.test(text)) return text
  const replace = (result: string, [pattern, replacement]: (typeof SECRETS)[number]) =>
    typeof replacement === 'string' ? result.replace(pattern, replacement) : result.replace(pattern, replacement)
  return TOKENS.reduce(replace, withoutNamedSecrets(SECRETS.reduce(replace, text)))
}

/** Replaces the whole value of each secret name. */
function withoutNamedSecrets(text: string): string {
  let safe = ''
  let done = 0
  for (const { 0: name, index } of text.matchAll(NAME_IN_TEXT)) {
    // This name is inside a value that is already redacted.
    if (index < done) continue
    const start = index + name.length
    const end = endOfValue(text, start, name, isLineStart(text, index))
    if (end === start || (/["']\s*:\s*$/.test(name) && endOf(NO_SECRET, text, start) === end)) continue
    safe += text.slice(done, start) + REDACTED
    done = end
  }
  return safe + text.slice(done)
}

function endOfValue(text: string, start: number, name: string, isLineStart: boolean): number {
  const first = text[start]
  if (first === '[' || first === '{') return endOfBrackets(text, start)
  const quoted = endOf(QUOTED, text, start) ?? endOf(ESCAPED, text, start)
  if (quoted !== undefined) return quoted
  const isHeader = /authorization|cookie/i.test(name) && endOf(ONE_TOKEN, text, start) === undefined
  const isLine = isHeader || (isLineStart && name.includes(':'))
  return endOf(isLine ? LINE : BARE, text, start) ?? start
}

/** Returns the end of a list or an object, ignoring brackets in quoted texts. */
function endOfBrackets(text: string, start: number): number {
  let depth = 0
  const tokens = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[[{\]}]/gs
  tokens.lastIndex = start
  for (let token = tokens.exec(text); token !== null; token = tokens.exec(text)) {
    const [mark] = token
    if (mark === '[' || mark === '{') depth++
    if ((mark === ']' || mark === '}') && --depth === 0) return tokens.lastIndex
  }
  return text.length
}

/** Returns the end of a match that begins at exactly this index. */
function endOf(pattern: RegExp, text: string, start: number): number | undefined {
  pattern.lastIndex = start
  return pattern.test(text) ? pattern.lastIndex : undefined
}

/** Returns whether only the beginning of a name, such as `X-`, precedes the index on its line. */
function isLineStart(text: string, index: number): boolean {
  let start = index
  while (/[\w.-]/.test(text[start - 1] ?? '')) start--
  while (/[^\S\n]/.test(text[start - 1] ?? '')) start--
  return start === 0 || text[start - 1] === '\n'
}
