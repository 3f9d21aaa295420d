import { OptionError } from './errors.js'
import { isObject } from './is-object.js'

/** The options of a function, each with the `typeof` of its values; `''` for those that are checked where they are used. */
export type KnownOptions<Options> = { readonly [Name in keyof Options]-?: ValueType }
type ValueType = 'function' | 'object' | ''

/** Throws an `OptionError` for an option that is unknown, most often a misspelling, or has a value of the wrong type. */
export function checkOptions<Options extends object>(
  owner: string,
  options: Options,
  known: Readonly<Record<string, ValueType>>,
): void {
  for (const name in options) {
    const value = options[name]
    // An option that is undefined counts as left out.
    if (value === undefined) continue
    const type = known[name]
    // Every object has a `toString`, but that is no text.
    if (typeof type !== 'string') throw new OptionError(name, unknownName(owner, '', name, known))
    if (type && typeof value !== type) throw wrongOption(name, `of type ${type}`, value)
  }
}

/** Says that a name is unknown, with the one that was probably meant, or else with all that are known. */
export function unknownName(owner: string, prefix: string, name: string, known: object): string {
  const names = Object.keys(known)
  // A misspelling swaps, doubles or drops letters, so no more than one letter is in one name alone.
  const meant = names.find(other => lettersOnlyIn(name, other) + lettersOnlyIn(other, name) < 2)
  const end = meant ? `. Did you mean '${prefix}${meant}'?` : `, only ${names.join(', ')}.`
  return `${owner} takes no '${prefix}${name}'${end}`
}

function lettersOnlyIn(name: string, other: string): number {
  return [...name.toLowerCase()].filter(letter => !other.toLowerCase().includes(letter)).length
}

/** The error for an option whose value is not as expected. */
export function wrongOption(option: string, expected: string, value: unknown): OptionError {
  return new OptionError(option, mustBe(option, expected, value))
}

/** The problem of a value that is not as expected, in words. */
export function mustBe(name: string, expected: string, value: unknown): string {
  return `'${name}' must be ${expected}; got ${shown(value)}.`
}

function shown(value: unknown): string {
  if (typeof value === 'string') return `'${value.slice(0, 40)}'`
  if (Array.isArray(value)) return 'a list'
  return isObject(value) ? 'an object' : typeof value === 'function' ? 'a function' : String(value)
}
