import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../policy/internal.js'
import type { PayloadPatch } from '../operation-store.js'

/** Longer payloads belong in a file or a table, with a reference to it in the task. */
export const MAX_PAYLOAD = 2 ** 20

/** Checks the length of a payload. Returns the problem, or `undefined`. */
export function lengthProblem({ length }: string): string | undefined {
  return length > MAX_PAYLOAD ? `it is ${length} characters long, and ${MAX_PAYLOAD} are allowed` : undefined
}

/**
 * A payload with a patch applied, as text; the text that it was if the patch changes nothing. If it is not JSON, is nested
 * too deeply, or becomes too long, what is wrong with it.
 */
export function patchedPayload(
  payload: string,
  patch: PayloadPatch,
): { readonly payload: string } | { readonly problem: string } {
  let before: unknown
  try {
    before = JSON.parse(payload)
  } catch {
    return { problem: 'it is not JSON' }
  }
  try {
    const after = mergePatch(before, patch)
    if (isDeepStrictEqual(before, after)) return { payload }
    const text = JSON.stringify(after)
    const problem = lengthProblem(text)
    return problem === undefined ? { payload: text } : { problem }
  } catch (error) {
    // Deeply nested JSON overflows the stack.
    if (error instanceof RangeError) return { problem: 'its fields are nested too deeply' }
    throw error
  }
}

/** Applies a JSON Merge Patch. Fields keep their order. Entries are never assigned, so `__proto__` is a field like any other. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map<string, unknown>(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else merged.set(name, mergePatch(merged.get(name), value))
  }
  return Object.fromEntries(merged)
}
