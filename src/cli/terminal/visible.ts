import { UNSAFE, unicodeEscape } from '../../policy/internal.js'

export { quoted, shellWord, shortened, visible } from '../../policy/internal.js'

/** JSON that is safe to print: `JSON.stringify` leaves C1 controls and others raw. Lines stay lines. */
export function visibleJson(json: string): string {
  return json.replace(UNSAFE, char => (char === '\n' ? char : unicodeEscape(char)))
}
