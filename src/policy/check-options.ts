import { OptionError } from './errors.js'
import { mustBe } from './parse.js'

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
    const type = Object.hasOwn(known, name) ? known[name] : undefined
    if (type === undefined) throw new OptionError(name, unknownOption(owner, name, Object.keys(known)))
    if (type && typeof value !== type) throw new OptionError(name, mustBe(name, `of type ${type}`, value))
  }
}

/** Says that an option is unknown, with the name that was probably meant, or else with all names. */
function unknownOption(owner: string, name: string, names: readonly string[]): string {
  // A misspelling swaps, doubles or drops letters, so no more than one letter is in one name alone.
  const meant = names.find(other => lettersOnlyIn(name, other) + lettersOnlyIn(other, name) < 2)
  return `${owner} takes no '${name}'${meant ? `. Did you mean '${meant}'?` : `, only ${names.join(', ')}.`}`
}

function lettersOnlyIn(name: string, other: string): number {
  return [...name.toLowerCase()].filter(letter => !other.toLowerCase().includes(letter)).length
}
