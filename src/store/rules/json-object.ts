import { OptionError } from '../../policy/index.js'
import { compactJson, isObject, plainJson, problemOf, quoted } from '../../policy/internal.js'

/** A JSON object as it is given: as a value, or as JSON text, whose numbers are kept as they are written. */
export type JsonObject = Readonly<Record<string, unknown>> | string

/** Such an object is saved with every step of an operation. */
const MAX_LENGTH = 2 ** 16
/** Whatever applies it recurses once per level. */
const MAX_DEPTH = 100

/** Its JSON text. Throws a `TypeError` for what JSON cannot hold. */
export function objectText(object: JsonObject): string {
  return typeof object === 'string' ? compactJson(object) : (plainJson(object) ?? '')
}

/** Checks an option that is an object with at least one field. `of` says what its fields are. */
export function checkJsonObject(option: string, object: JsonObject, of: string): void {
  const tooDeep = () => new OptionError(option, `'${option}' must have at most ${MAX_DEPTH} levels.`)
  if (isDeeper(object, MAX_DEPTH)) throw tooDeep()
  const { text, value } = jsonOf(option, object)
  if (isDeeper(value, MAX_DEPTH)) throw tooDeep()
  if (!isObject(value) || text === '{}')
    throw new OptionError(option, `'${option}' must be an object with ${of}, got ${quoted(object)}.`)
  if (text.length > MAX_LENGTH)
    throw new OptionError(option, `'${option}' must be at most ${MAX_LENGTH} characters of JSON, got ${text.length}.`)
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some(part => isDeeper(part, levels - 1))
}

function jsonOf(option: string, object: JsonObject): { readonly text: string; readonly value: unknown } {
  try {
    const text = objectText(object)
    return { text, value: JSON.parse(text) }
  } catch (error) {
    throw new OptionError(option, `'${option}' must be JSON: ${problemOf(error)}.`)
  }
}
