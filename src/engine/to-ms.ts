import { type Duration, OptionError, parseDuration } from '../policy/index.js'

/** The milliseconds of an option that is a duration. */
export function toMs(option: string, value: Duration, min = 0): number {
  const ms = parseDuration(value)
  if (ms === undefined || ms < min)
    throw new OptionError(option, `'${option}' must be a duration such as '5m', got ${String(value)}.`)
  return ms
}
