import { isWordAt } from './characters.js'
import { MASK } from './mask-word.js'
import { MAX_PATTERN } from './pattern.js'

/** Punctuation right behind a word, a space, and what opens a value. */
const BEFORE_VALUE = /^[),;:.!?\]}"'`»”]{0,3}\s*[([{"'`«“<]{0,3}/u
/** Closing marks of a value, punctuation, a space, and opening marks of the next word. */
const AFTER_VALUE = /[)\]}"'`»”>]{0,3}[,;:.!?]{0,2}\s*[([{"'`«“<]{0,3}$/u
const NO_WORDS = /[\p{L}\p{N}\p{M}\p{S}*]+/gu

/**
 * The pattern of a message with the punctuation of the message, for people: `reading 'id'` instead of `reading id`. The pattern
 * itself where they cannot be laid side by side. It has no word that the pattern has not.
 *
 * ```ts
 * readablePattern("Cannot read 'id' (of 7)", 'Cannot read id of *') // Cannot read 'id' (of *)
 * ```
 */
export function readablePattern(message: string, pattern: string): string {
  if (pattern === '') return pattern
  let readable = ''
  let at = 0
  let isMasked = false
  for (const word of pattern.split(' ')) {
    // The varying part may be in the middle of a word, or at its end.
    for (const [index, text] of word.split(MASK).entries()) {
      if (index > 0) isMasked = true
      if (text === '') continue
      const found = place(message, text, at, isMasked, index === 0)
      if (found === undefined) return pattern
      readable += between(message.slice(at, found), isMasked) + text
      at = found + text.length
      isMasked = false
    }
  }
  readable += ending(message.slice(at), isMasked)
  return readable.length > MAX_PATTERN ? pattern : readable
}

/** The next place of a text: at the beginning of a word, and behind what varies if something does. */
function place(
  message: string,
  text: string,
  from: number,
  isMasked: boolean,
  isBeginning: boolean,
): number | undefined {
  for (let at = message.indexOf(text, from); at !== -1; at = message.indexOf(text, at + 1)) {
    const isWord = !isBeginning || at === 0 || !isWordAt(message, at - 1) || !isWordAt(message, at)
    if (isWord && (!isMasked || hasWord(message.slice(from, at)))) return at
  }
  return undefined
}

function hasWord(text: string): boolean {
  return text.search(NO_WORDS) !== -1
}

/** The punctuation between two words, with the mask between them if something varies there. */
function between(gap: string, isMasked: boolean): string {
  if (!isMasked) return gap.replace(NO_WORDS, '').slice(0, 10) || (gap === '' ? '' : ' ')
  const [before = ''] = BEFORE_VALUE.exec(gap) ?? []
  const [after = ''] = AFTER_VALUE.exec(gap.slice(before.length)) ?? []
  return before + MASK + after
}

/** The end of a message. Words that are left are no part of the pattern. */
function ending(rest: string, isMasked: boolean): string {
  if (isMasked) return between(rest, true).trimEnd()
  return hasWord(rest) ? '' : rest.slice(0, 10).trimEnd()
}
