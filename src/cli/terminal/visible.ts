import { clip } from './text-width.js'

/** Characters that control a terminal, change the direction of text or break an encoding. */
const UNSAFE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Text that is safe to print on one line: `\x1b` in place of an escape character, and so on. */
export function visible(text: string): string {
  return text.replace(UNSAFE, char => NAMED[char] ?? escaped(char))
}

/** The longest name in a message. */
const MAX_NAME = 80

/** A name in quotes for a message: safe to print, and clipped if it is long. */
export function quoted(name: string): string {
  return `'${clip(visible(name), MAX_NAME)}'`
}

/** Like `visible`, but lines stay lines. */
export function visibleLines(text: string): string {
  return text.split('\n').map(visible).join('\n')
}

/** JSON that is safe to print: `JSON.stringify` leaves C1 controls and others raw. Lines stay lines. */
export function visibleJson(json: string): string {
  return json.replace(UNSAFE, char => (char === '\n' ? char : unicode(char)))
}

const PLAIN_WORD = /^[\w@%+=:,./-]+$/

/** A word quoted for a shell, if it needs to be: in quotes, or with escapes in bash's `$'…'`. */
export function shellWord(text: string): string {
  if (PLAIN_WORD.test(text)) return text
  if (text.search(UNSAFE) < 0) return `'${text.replaceAll("'", `'\\''`)}'`
  return `$'${text.replace(/[\\']/g, '\\$&').replace(UNSAFE, unicode)}'`
}

function escaped(char: string): string {
  const code = char.charCodeAt(0)
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : unicode(char)
}

function unicode(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}
