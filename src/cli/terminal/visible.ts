import { UNSAFE, unicodeEscape } from '../../policy/internal.js'

export { quoted, shortened, visible } from '../../policy/internal.js'

/** JSON that is safe to print: `JSON.stringify` leaves C1 controls and others raw. Lines stay lines. */
export function visibleJson(json: string): string {
  return json.replace(UNSAFE, char => (char === '\n' ? char : unicodeEscape(char)))
}

const PLAIN_WORD = /^[\w@%+=:,./-]+$/

/** A word quoted for a shell, if it needs to be: in quotes, or with escapes in bash's `$'…'`. */
export function shellWord(text: string): string {
  if (PLAIN_WORD.test(text)) return text
  if (text.search(UNSAFE) < 0) return `'${text.replaceAll("'", `'\\''`)}'`
  return `$'${text.replace(/[\\']/g, '\\$&').replace(UNSAFE, unicodeEscape)}'`
}
