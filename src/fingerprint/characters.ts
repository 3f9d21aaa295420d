/** How a character counts while a message is cut into words. The kinds of a word's characters are or-ed together. */
export const GAP = 0
export const LOWER = 1
export const UPPER = 2
/** Digits, and the placeholder, so that masking a masked message changes nothing. */
export const DIGIT = 4
/** Joins the pieces of a word: `order-981`, `a.b`, `key=value`. */
export const JOINT = 8
export const QUOTE = 16
/** A letter or a digit of another script. */
export const FOREIGN = 32

const KINDS = new Uint8Array(128)
for (let code = 0; code < 128; code++) {
  const character = String.fromCharCode(code)
  if (/[a-z]/.test(character)) KINDS[code] = LOWER
  else if (/[A-Z]/.test(character)) KINDS[code] = UPPER
  else if (/[0-9*]/.test(character)) KINDS[code] = DIGIT
  else if (/[-_.:/#@~+=%$&\\^]/.test(character)) KINDS[code] = JOINT
  else if (/["'`]/.test(character)) KINDS[code] = QUOTE
}

const LEADING = marked('-+#$%&=:^')
const TRAILING = marked('.:=-/\\&+^~@#')

/** Whether a joint at an index is no part of the word that it begins. Two colons are: an address may begin with them. */
export function isLeading(text: string, index: number): boolean {
  return LEADING[text.charCodeAt(index)] === 1 && !(text[index] === ':' && text[index + 1] === ':')
}

/** Whether a joint at an index is no part of the word that it ends. */
export function isTrailing(text: string, index: number): boolean {
  return TRAILING[text.charCodeAt(index)] === 1
}

function marked(characters: string): Uint8Array {
  const marks = new Uint8Array(128)
  for (const character of characters) marks[character.charCodeAt(0)] = 1
  return marks
}

/** Quotes that open, with the one that closes them. */
const CLOSING: Readonly<Record<string, string>> = {
  '\u201c': '\u201d',
  '\u201e': '\u201c',
  '\u2018': '\u2019',
  '\u00ab': '\u00bb',
  '\u300c': '\u300d',
}
const FOREIGN_WORD = /[\p{L}\p{N}\p{M}\p{S}]/u

/** The kind of the character at an index. */
export function kindAt(text: string, index: number): number {
  const code = text.charCodeAt(index)
  return code < 128 ? (KINDS[code] ?? GAP) : foreignKind(text, index)
}

/** The character that closes the quote at an index. */
export function closingQuote(text: string, index: number): string {
  const opening = text.charAt(index)
  return CLOSING[opening] ?? opening
}

function foreignKind(text: string, index: number): number {
  const character = text.charAt(index)
  if (character in CLOSING) return QUOTE
  // Halves of a surrogate pair stay together.
  const code = text.charCodeAt(index)
  return (code >= 0xd800 && code <= 0xdfff) || FOREIGN_WORD.test(character) ? FOREIGN : GAP
}

/** Whether the character at an index is a letter or a digit. */
export function isWordAt(text: string, index: number): boolean {
  return (kindAt(text, index) & (LOWER | UPPER | DIGIT | FOREIGN)) !== 0
}
