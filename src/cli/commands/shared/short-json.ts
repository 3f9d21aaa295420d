import { exactJson } from '../../../policy/internal.js'
import { redact } from '../../../telemetry/index.js'

const MAX_JSON = 500

/** A payload or a result for people: cut if it is long, with its secrets redacted. `--output json` has it in full. */
export function shortJson(value: unknown): string {
  const json = exactJson(value)
  const text = redact(json)
  return json.length <= MAX_JSON ? text : `${text.slice(0, MAX_JSON)}… (${json.length} characters: see --output json)`
}
