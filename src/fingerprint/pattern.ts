import { MASK } from './mask-word.js'

/** No more words than this tell one pattern from another. */
const MAX_WORDS = 40
/** The maximum length of a pattern. */
export const MAX_PATTERN = 500
/** A longer word is a value. */
export const MAX_WORD = 64

/**
 * The words of a masked message. Repeated words and pairs of words count once, so that lists of different lengths agree:
 * `id * id * id *` is `id *`.
 */
export class Pattern {
  readonly #words: string[] = []
  #length = 0
  #isFull = false

  /** The last word; empty if there is none. */
  get last(): string {
    return this.#words.at(-1) ?? ''
  }

  /** The word before the last one. */
  get beforeLast(): string {
    return this.#words.at(-2) ?? ''
  }

  get isEmpty(): boolean {
    return this.#words.length === 0
  }

  get isFull(): boolean {
    return this.#isFull
  }

  add(word: string): void {
    const added = word.length > MAX_WORD ? MASK : word
    const words = this.#words
    const count = words.length
    const last = words[count - 1]
    if (added === last) return
    if (added === words[count - 2] && last !== undefined && last === words[count - 3]) {
      words.pop()
      this.#length -= last.length + 1
      return
    }
    this.#isFull = count === MAX_WORDS || this.#length + added.length > MAX_PATTERN
    if (this.#isFull) return
    words.push(added)
    this.#length += added.length + 1
  }

  /** Replaces the last word, a number, by the mask. */
  maskLast(): void {
    const last = this.#words.pop()
    if (last === undefined) return
    this.#length -= last.length + 1
    this.add(MASK)
  }

  toString(): string {
    return this.#words.join(' ')
  }
}
