import { Masker } from './masker.js'
import { Pattern } from './pattern.js'

/** The part of a message that is looked at. The ledger keeps no more of it. */
const WINDOW = 1000
const BEYOND_ASCII = /[\u0080-\uffff]/
const FOREIGN_DIGIT = /(?![0-9])\p{Nd}/gu

/**
 * The pattern of a message: whatever varies from one failure to the next is `*`, and punctuation is gone. Ids, numbers,
 * addresses, paths, quoted values, times, sizes and hashes are masked. Status codes, SQLSTATEs and the names of columns,
 * tables, constraints and properties stay. Reads each character about once, and never more than 1000 of them.
 *
 * ```ts
 * maskMessage("user 'ada' has no address") // user * has no address
 * ```
 */
export function maskMessage(message: string): string {
  const text = windowOf(message)
  const pattern = new Pattern()
  new Masker(BEYOND_ASCII.test(text) ? text.normalize('NFC').replace(FOREIGN_DIGIT, '0') : text, pattern).scan()
  return pattern.toString()
}

/** Redaction notes at the end of a long text how long it was. */
function windowOf(message: string): string {
  const cut = message.endsWith(' characters)') ? message.lastIndexOf('\u2026 (') : -1
  return message.slice(0, cut === -1 ? WINDOW : Math.min(cut, WINDOW))
}
