import { label } from '../telemetry/internal.js'

const MAX_NAME = 80

/** A name in quotes for a message: on one line, and cut if it is long. */
export function quoted(name: string): string {
  return `'${label(name, MAX_NAME)}'`
}
