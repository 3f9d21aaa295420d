import { OptionError } from '../policy/index.js'

/** Environment variables: `process.env`, or an object like it. */
export type Env = Readonly<Record<string, string | undefined>>

interface Expected {
  readonly min: number
  readonly isWhole?: boolean
  /** Milliseconds per unit, if the variable is a duration. */
  readonly unitMs?: number
}

/** Reads a number from the first of these variables that is set; `undefined` if all are unset or blank. */
export function readNumber(
  env: Env,
  names: readonly string[],
  { min, isWhole = false, unitMs }: Expected,
): number | undefined {
  const name = names.find(name => env[name]?.trim())
  if (name === undefined) return undefined
  const text = env[name]?.trim() ?? ''
  const value = Number(text)
  if (!(Number.isFinite(value) && value >= min && (!isWhole || Number.isInteger(value)))) {
    const expected = `${isWhole ? 'a whole number' : 'a number'}, ${min} or more`
    throw new OptionError(name, `${name} must be ${expected}, got '${text.slice(0, 60)}'.`)
  }
  return unitMs === undefined ? value : Math.round(value * unitMs)
}
