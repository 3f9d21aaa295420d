/** Characters that control a terminal, change the direction of text or break an encoding. */
export const UNSAFE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Longer names are cut in the middle: ids often differ at their end only. */
const MAX_LENGTH = 64
const TAIL_LENGTH = 16

/** Text that is safe to print on one line: `\x1b` in place of an escape character, and so on. */
export function visible(text: string): string {
  return text.replace(UNSAFE, char => NAMED[char] ?? escaped(char))
}

/** An id, key or other name as messages show it: in quotes, on one line, and never long. Names may be any value. */
export function quoted(name: unknown): string {
  if ((typeof name === 'object' && name !== null) || typeof name === 'function') return `a value of type ${typeof name}`
  if (typeof name !== 'string') return String(name)
  return name.length <= MAX_LENGTH ? `'${visible(name)}'` : `'${shortened(name)}' (${name.length} characters)`
}

/** The same without quotes. */
export function shortened(name: string): string {
  if (name.length <= MAX_LENGTH) return visible(name)
  return `${visible(name.slice(0, MAX_LENGTH - TAIL_LENGTH - 1))}…${visible(name.slice(-TAIL_LENGTH))}`
}

/** The escape of a character in JSON. */
export function unicodeEscape(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function escaped(char: string): string {
  const code = char.charCodeAt(0)
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : unicodeEscape(char)
}
