import { mergePatch } from '../../../policy/internal.js'
import type { PayloadPatch } from '../../contract/operation-store.js'
import { objectText } from '../json-object.js'

/** Longer payloads belong in a file or a table, with a reference to it in the task. */
export const MAX_PAYLOAD = 2 ** 20

/** Checks the length of a payload. Returns the problem, or `undefined`. */
export function lengthProblem({ length }: string): string | undefined {
  return length > MAX_PAYLOAD ? `it is ${length} characters long, and ${MAX_PAYLOAD} are allowed` : undefined
}

/**
 * A payload with a patch applied, both as text: what the patch does not change stays as it was written. If the payload is
 * not JSON, or becomes too long, what is wrong with it.
 */
export function patchedPayload(
  payload: string,
  patch: PayloadPatch,
): { readonly payload: string } | { readonly problem: string } {
  try {
    JSON.parse(payload)
  } catch {
    return { problem: 'it is not JSON' }
  }
  const text = mergePatch(payload, objectText(patch))
  const problem = text === payload ? undefined : lengthProblem(text)
  return problem === undefined ? { payload: text } : { problem }
}
