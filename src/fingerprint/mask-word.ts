import { DIGIT, FOREIGN, JOINT, kindAt, LOWER, UPPER } from './characters.js'
import { FILE_ENDS, HOST_ENDS, LONG_HOST_ENDS, WITH_DIGITS } from './vocabulary.js'

/** Stands for everything that varies: one sign for all, since an id may look like a number, a hash or a word. */
export const MASK = '*'

/** The kinds of characters in a piece that is made of letters and digits alone. */
const LETTERS = LOWER | UPPER

/** Versions, protocols and codes of which the digits are a part. */
const FIXED =
  /^(?:(?:v|TLSv|SSLv|TLS|SSL|HTTP\/)\d+(?:\.\d+){0,3}|ORA-\d{5}|P[1-6]0\d\d|E11\d{3}|AADSTS\d{4,6}|TS\d{4,5})$/
const DIGITS = /[\d*]+/g
const FILE = /\/[^/]*\.[a-z\d]{1,5}$/
const DRIVE = /^(?:[A-Za-z]:\\|\\\\)/
const PORT = /^(.+):[\d*]{1,5}$/
const HEX = /^[\da-fA-F]+$/
const HEX_GROUPS = /^[\da-fA-F*]*:[\da-fA-F*]*:[\da-fA-F:.*]*$/
const VOWEL = /[aeiouyAEIOUY]/

/** Masks a word of letters alone: it is an id if all its letters are hexadecimal, or if its case changes as no name's does. */
export function maskLetters(word: string, kinds: number): string {
  if (word.length < 8) return word
  if (HEX.test(word)) return MASK
  return kinds === LETTERS && hasOddCase(word) ? MASK : word
}

/** Masks a word with digits or joints, as far as it can be told without its neighbours. */
export function maskWord(word: string, kinds: number): string {
  if ((kinds & FOREIGN) !== 0) return word.replace(DIGITS, MASK)
  if ((kinds & (DIGIT | JOINT)) === 0) return maskLetters(word, kinds)
  if ((kinds & DIGIT) !== 0 && (FIXED.test(word) || WITH_DIGITS.has(word.toLowerCase()))) return word
  if ((kinds & JOINT) !== 0 && isAddress(word)) return MASK
  if ((kindAt(word, 0) & DIGIT) !== 0) return MASK
  if (word.includes('**')) return MASK
  const masked = maskPieces(word)
  return masked !== word && isAddress(masked) ? MASK : masked
}

/** Masks what varies in a name: four digits in a row, and pieces that look random. */
export function maskName(name: string): string {
  const bare = name.endsWith('()') ? name.slice(0, -2) : name
  if (!/[\d*]/.test(bare)) return bare
  const masked = bare.replace(/[\d*]{4,}|\*/g, MASK)
  return masked.replace(/[^-_.:/]{8,}.*/, rest => (isRandom(rest) ? MASK : rest))
}

/** Whether a word is an address of any kind: of mail, a resource, a file, a host, with or without its port. */
function isAddress(word: string): boolean {
  const at = word.indexOf('@', 1)
  if (at > 0 && at < word.length - 1) return true
  if (word.startsWith('arn:') || DRIVE.test(word)) return true
  if (word.includes('/')) return isPath(word)
  if (!word.includes(':')) return isHostOrFile(word)
  if (HEX_GROUPS.test(word)) return true
  const [, host] = PORT.exec(word) ?? []
  return host !== undefined && (/[.\d*-]/.test(host) || isHostOrFile(host))
}

function isPath(word: string): boolean {
  if (/^[.~]*\/./.test(word)) return true
  return word.indexOf('/') !== word.lastIndexOf('/') || FILE.test(word)
}

/** Whether a word is the name of a host or of a file. */
function isHostOrFile(word: string): boolean {
  const dot = word.lastIndexOf('.')
  const end = word.slice(dot + 1)
  if (dot < 1) return end === 'localhost'
  return HOST_ENDS.has(end) || FILE_ENDS.has(end) || (LONG_HOST_ENDS.has(end) && word.indexOf('.') !== dot)
}

/** Masks the first piece that varies, and all that follows it: `worker-7f9c-xkjdq` becomes `worker-*`. */
function maskPieces(word: string): string {
  let start = 0
  let kinds = 0
  for (let i = 0; i <= word.length; i++) {
    const kind = i < word.length ? kindAt(word, i) : JOINT
    if (kind !== JOINT) {
      kinds |= kind
      continue
    }
    const piece = word.slice(start, i)
    const masked = maskPiece(piece, kinds)
    if (masked !== piece || masked === MASK) return word.slice(0, start) + masked
    if (word[i] === ':' && isHostOrFile(word.slice(i + 1))) return word.slice(0, i + 1) + MASK
    start = i + 1
    kinds = 0
  }
  return word
}

/** Masks a piece. Letters before digits stay if they look like a word: `shard12` becomes `shard*`. */
function maskPiece(piece: string, kinds: number): string {
  if ((kinds & DIGIT) === 0) return maskLetters(piece, kinds)
  if (WITH_DIGITS.has(piece.toLowerCase())) return piece
  if (piece.length >= 6 && HEX.test(piece)) return MASK
  let letters = 0
  while ((kindAt(piece, letters) & LETTERS) !== 0) letters++
  for (let i = letters; i < piece.length; i++) if ((kindAt(piece, i) & DIGIT) === 0) return MASK
  const word = piece.slice(0, letters)
  return letters >= 3 && VOWEL.test(word) && !(letters >= 8 && HEX.test(word)) && !hasOddCase(word) ? word + MASK : MASK
}

/** Whether letters change their case more often than the words of a name do. */
function hasOddCase(word: string): boolean {
  if (word.length < 8) return false
  let changes = 0
  for (let i = 1; i < word.length; i++) if (kindAt(word, i) !== kindAt(word, i - 1)) changes++
  return changes * 2 > word.length
}

/** Whether letters and digits take turns as in no name. */
function isRandom(text: string): boolean {
  let changes = 0
  for (let i = 1; i < text.length; i++) {
    if (((kindAt(text, i) ^ kindAt(text, i - 1)) & DIGIT) !== 0) changes++
  }
  return changes >= 4
}
