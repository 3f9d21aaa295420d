import {
  closingQuote,
  DIGIT,
  FOREIGN,
  GAP,
  isLeading,
  isTrailing,
  isWordAt,
  JOINT,
  kindAt,
  LOWER,
  QUOTE,
  UPPER,
} from './characters.js'
import { isCount, isCounted, isFixedNumber, isReplyCode } from './fixed-number.js'
import { MASK, maskLetters, maskName, maskWord } from './mask-word.js'
import { isName, isPlainName, labelValue, listValue, pair } from './names.js'
import type { Pattern } from './pattern.js'
import { HOST_AFTER, LABELS, LITERALS, MESSAGES, NAMED, UNITS } from './vocabulary.js'

const MARKUP = /<(?:!doctype|\?xml|html|head|body|title|div|h1|p>|error>)/iy
const DATE =
  /(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? (?:\d{1,2} [A-Z][a-z]{2}|[A-Z][a-z]{2} \d{1,2}),? \d{4}(?: [\d:]+)?(?: (?:GMT|UTC)?(?:[+-]\d{4})?)?/y
/** The word behind a quoted text, if nothing else is between them. */
const NEXT_WORD = / ([A-Za-z]+)(?=[ ,;)]|\.(?: |$)|$)/y

/**
 * Reads a message from left to right, and adds its words to a pattern as it goes. Every rule looks at the word itself, at
 * the last words of the pattern, and at no more than one word ahead.
 */
export class Masker {
  readonly #text: string
  readonly #pattern: Pattern
  /** A key such as `code`, until its value has been seen. */
  #label: string | undefined
  /** Whether the word before ended with a colon or an equals sign. */
  #isValue = false
  /** Whether the word before was a name in quotes: a list of them may follow. */
  #isNameList = false
  /** The kinds of characters of the present word, how many of them are joints, and where it ends without those around it. */
  #kinds = 0
  #joints = 0
  #stop = 0

  constructor(text: string, pattern: Pattern) {
    this.#text = text
    this.#pattern = pattern
  }

  scan(from = 0, to = this.#text.length): void {
    const text = this.#text
    let i = from
    while (i < to && !this.#pattern.isFull) {
      const kind = kindAt(text, i)
      if (kind === QUOTE) i = this.#quoted(i, to)
      else if (kind !== GAP) i = this.#word(i, to)
      else if (text[i] === '<' && matchAt(MARKUP, text, i) !== undefined) break
      else if (text[i] === '[' && this.#label !== undefined) i = this.#list(this.#label, i, to)
      else i++
    }
    this.#endLabel()
  }

  /** Adds a word that is not a name in a list. A host is masked even if it is a plain word. */
  #add(word: string): void {
    this.#isNameList = false
    const { last } = this.#pattern
    this.#pattern.add(last.startsWith('E') && HOST_AFTER.has(last) ? MASK : word)
  }

  /** Adds a label that turned out to have no value worth keeping. */
  #endLabel(): void {
    if (this.#label !== undefined) this.#add(this.#label)
    this.#label = undefined
  }

  /** Adds `label=value`, or the label alone if the value varies. Returns whether the value was added. */
  #labelled(label: string, value: string | undefined): boolean {
    this.#label = undefined
    this.#add(value === undefined ? label : `${label}=${value}`)
    return value !== undefined
  }

  /** Adds a key, or holds it back if its value belongs to the pattern. */
  #key(key: string): void {
    if (LABELS.has(key.toLowerCase())) this.#label = key
    else this.#add(key)
    this.#isValue = true
  }

  #list(label: string, from: number, to: number): number {
    const close = this.#text.indexOf(']', from)
    if (close === -1 || close >= to) return from + 1
    this.#labelled(label, listValue(this.#text.slice(from + 1, close)))
    return close + 1
  }

  /** Masks a quoted text: a key, a value, a message or a name. Returns the index behind it. */
  #quoted(from: number, to: number): number {
    const close = this.#closeOf(from, to)
    if (close === -1) return from + 1
    const text = this.#text
    const isValue = this.#isValue
    this.#isValue = false
    const content = text.slice(from + 1, text[close - 1] === '\\' ? close - 1 : close)
    if (this.#isKey(from, close)) {
      this.#endLabel()
      this.#key(isName(content) ? maskWord(maskName(content), kindsOf(content)) : MASK)
    } else if (this.#label === undefined || !this.#labelled(this.#label, labelValue(this.#label, content))) {
      this.#value(content, from, close, isValue)
    }
    return close + 1
  }

  #value(content: string, from: number, close: number, isValue: boolean): void {
    const last = this.#pattern.last.toLowerCase()
    if (MESSAGES.has(last) && (isValue || last === 'message')) this.scan(from + 1, close)
    else if (LITERALS.has(content)) this.#add(content)
    else if (!isName(content)) this.#add(MASK)
    else if (this.#isNamed(last, close)) this.#name(content)
    else if (this.#isNameList) {
      const name = maskName(content)
      this.#add(maskWord(name, kindsOf(name)))
      this.#isNameList = true
    } else this.#add(MASK)
  }

  /** Whether the words around a quoted text say that it is a name: `column "a"`, `the "a" argument`, `the value of "a"`. */
  #isNamed(last: string, close: number): boolean {
    if (NAMED.has(last)) return true
    if ((last === 'of' || last === 'for') && this.#pattern.beforeLast === 'value') return true
    return NAMED.has(matchAt(NEXT_WORD, this.#text, close + 1)?.toLowerCase() ?? '')
  }

  /** Adds a name: in quotes, if it would not be recognised as one without. */
  #name(name: string): void {
    const masked = maskName(name)
    const isPlain = isPlainName(masked) && this.#pattern.last !== MASK && maskWord(masked, kindsOf(masked)) === masked
    this.#add(isPlain || masked === MASK ? masked : `"${masked}"`)
    this.#isNameList = true
  }

  /** The index of the quote that closes the one at an index, -1 if there is none. No letter follows a quote that closes. */
  #closeOf(from: number, to: number): number {
    const text = this.#text
    const closing = closingQuote(text, from)
    const isEscaped = text[from - 1] === '\\'
    for (let i = text.indexOf(closing, from + 1); i !== -1 && i < to; i = text.indexOf(closing, i + 1)) {
      if ((text[i - 1] === '\\') === isEscaped && !isWordAt(text, i + 1)) return i
    }
    return -1
  }

  /** Whether a quoted text is a key as in JSON: after a bracket or a comma, and before a colon. */
  #isKey(from: number, close: number): boolean {
    const text = this.#text
    let after = close + 1
    while (text[after] === ' ') after++
    if (text[after] !== ':' || isScheme(text, after)) return false
    let before = from - 1
    while (text[before] === ' ' || text[before] === '\\') before--
    return text[before] === '{' || text[before] === ','
  }

  /** Masks a word without quotes. Returns the index behind it. */
  #word(from: number, to: number): number {
    const text = this.#text
    const end = this.#endOfWord(from, to)
    if (end < to && (isScheme(text, end) || isQuery(text, from, end))) return this.#url(from, end, to)
    const start = this.#trim(from, end)
    const stop = this.#stop
    const isKey = stop < end && (text[stop] === ':' || text[stop] === '=')
    if (start === stop) {
      this.#isValue ||= isKey
      return end
    }
    this.#isValue = false
    const after = this.#place(text.slice(start, stop), start, end, to, isKey)
    this.#isValue = isKey
    return after
  }

  /** The index behind a word, or that of the `://` in it. Notes the kinds of its characters. */
  #endOfWord(from: number, to: number): number {
    const text = this.#text
    let end = from
    this.#kinds = 0
    this.#joints = 0
    for (; end < to; end++) {
      const kind = kindAt(text, end)
      if (kind === JOINT) {
        if (isScheme(text, end)) break
        this.#joints++
      } else if (kind === GAP || (kind === QUOTE && !this.#isApostrophe(end))) break
      else if (kind !== QUOTE) this.#kinds |= kind
    }
    return end
  }

  /** Leaves out joints around a word. Returns its start, and notes its end and whether joints are left in it. */
  #trim(from: number, end: number): number {
    let start = from
    let stop = end
    if (this.#joints > 0) {
      while (stop > start && isTrailing(this.#text, stop - 1)) stop--
      while (start < stop && isLeading(this.#text, start)) start++
      if (this.#joints > end - stop + (start - from)) this.#kinds |= JOINT
    }
    this.#stop = stop
    return start
  }

  /** Adds a word as the value of a label, as a column of `(column)=(value)`, or for itself. Returns the index behind it. */
  #place(word: string, start: number, end: number, to: number, isKey: boolean): number {
    const label = this.#label
    if (label !== undefined && this.#labelled(label, labelValue(label, word))) return end
    if (this.#text[end] === ')' && this.#text.startsWith(')=(', end) && isName(word)) {
      this.#add(pair(word, MASK))
      const close = this.#text.indexOf(')', end + 3)
      return close === -1 || close >= to ? to : close + 1
    }
    if (isKey && LABELS.has(word.toLowerCase())) this.#label = word
    else if ((this.#kinds & ~(LOWER | UPPER)) === 0) return this.#letters(word, this.#kinds, start, end)
    else this.#mixed(word, this.#kinds, end)
    return end
  }

  /** Adds a word of letters alone. Returns the index behind it, or behind the date that it begins. */
  #letters(word: string, kinds: number, start: number, end: number): number {
    const pattern = this.#pattern
    if (isCount(pattern) && isCounted(word)) pattern.maskLast()
    if (pattern.last === MASK && isCounted(word)) {
      if (!UNITS.has(word.toLowerCase())) this.#add(word.slice(0, -1))
      return end
    }
    if (word.length === 3 && word.charCodeAt(1) > 96) {
      const date = matchAt(DATE, this.#text, start)
      if (date !== undefined) {
        this.#add(MASK)
        return start + date.length
      }
    }
    this.#add(word === 'redacted' ? MASK : maskLetters(word, kinds))
    return end
  }

  /** Adds a word with digits or joints, or of another script. */
  #mixed(word: string, kinds: number, end: number): void {
    const pattern = this.#pattern
    const { last } = pattern
    if (last === MASK && (kinds & FOREIGN) !== 0 && UNITS.has(word)) return
    const equals = (kinds & JOINT) === 0 ? -1 : word.indexOf('=')
    const key = word.slice(0, Math.max(equals, 0))
    if (equals > 0 && isName(key)) {
      this.#add(pair(key, LABELS.has(key.toLowerCase()) ? labelValue(key, word.slice(equals + 1)) : MASK))
    } else if (kinds === DIGIT && isFixedNumber(word, this.#text, end, pattern)) this.#add(word)
    else if (isReplyCode(word, last)) this.#add(word)
    else if ((kinds & DIGIT) !== 0 && NAMED.has(last.toLowerCase()) && isName(word)) this.#name(word)
    else this.#add(maskWord(word, kinds))
  }

  /** Masks a URL, or a path with its query, up to its end; `key=` before it stays. */
  #url(from: number, mark: number, to: number): number {
    const text = this.#text
    const equals = text.indexOf('=', from)
    const key = text.slice(from, Math.max(equals, from))
    this.#endLabel()
    this.#isValue = false
    this.#add(equals < mark && isName(key) ? pair(key, MASK) : MASK)
    let end = mark + 1
    while (end < to && !URL_ENDS.includes(text.charAt(end))) end++
    return end
  }

  #isApostrophe(index: number): boolean {
    return this.#text[index] === "'" && isWordAt(this.#text, index - 1) && isWordAt(this.#text, index + 1)
  }
}

const URL_ENDS = ' \t\n\r"\'`<>)'

/** Whether `://` is at an index. */
function isScheme(text: string, index: number): boolean {
  return (
    text.charCodeAt(index) === COLON && text.charCodeAt(index + 1) === SLASH && text.charCodeAt(index + 2) === SLASH
  )
}

/** Whether the word from an index is a path, and a query follows it. */
function isQuery(text: string, from: number, end: number): boolean {
  return text[end] === '?' && text[from] === '/' && isWordAt(text, end + 1)
}

const COLON = 58
const SLASH = 47

function kindsOf(word: string): number {
  let kinds = 0
  for (let i = 0; i < word.length; i++) kinds |= kindAt(word, i)
  return kinds
}

/** The match of a sticky expression at an index: its first group if it has one. */
function matchAt(expression: RegExp, text: string, index: number): string | undefined {
  expression.lastIndex = index
  const match = expression.exec(text)
  return match?.[1] ?? match?.[0]
}
