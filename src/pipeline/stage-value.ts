import { plainJson, problemOf } from '../policy/internal.js'
import { StageValueError } from './errors.js'

/** A longer value belongs in a file or a table, with a reference to it in the item. */
const MAX_VALUE = 2 ** 20

/** The JSON of a value that a last stage returned. Nothing is a good result too. */
export function stageValue(stage: string, item: string, value: unknown): string | undefined
/** The JSON of a value that goes on to the next stage. */
export function stageValue(stage: string, item: string, value: unknown, next: string): string
export function stageValue(stage: string, item: string, value: unknown, next?: string): string | undefined {
  const json = toJson(stage, item, value)
  if (json === undefined && next !== undefined)
    throw new StageValueError(stage, item, `it is undefined, and the stage '${next}' comes next.`)
  if (json !== undefined && json.length > MAX_VALUE)
    throw new StageValueError(stage, item, `it is ${json.length} characters long, and ${MAX_VALUE} are allowed.`)
  return json
}

function toJson(stage: string, item: string, value: unknown): string | undefined {
  try {
    return plainJson(value)
  } catch (error) {
    throw new StageValueError(stage, item, `${problemOf(error)}.`)
  }
}
