import { plainJson, problemOf } from '../policy/internal.js'
import { lengthProblem } from '../store/internal.js'
import { PayloadError } from './errors.js'

/** The JSON of a payload. Throws a `PayloadError` for what JSON cannot hold. */
export function payloadJson(kind: string, payload: unknown): string {
  let json: string | undefined
  try {
    json = plainJson(payload)
  } catch (error) {
    throw new PayloadError(kind, problemOf(error))
  }
  if (json === undefined) return 'null'
  const problem = lengthProblem(json)
  if (problem !== undefined) throw new PayloadError(kind, problem)
  return json
}
