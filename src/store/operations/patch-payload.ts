import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../policy/internal.js'
import type { PayloadPatch } from '../operation-store.js'

/** Longer payloads belong in a file or a table, with a reference to it in the task. */
export const MAX_PAYLOAD = 2 ** 20

/**
 * A payload with a patch applied, as text; the text that it was if the patch changes nothing. If it is not JSON, or becomes
 * too long, what is wrong with it.
 */
export function patchedPayload(
  payload: string,
  patch: PayloadPatch,
): { readonly payload: string } | { readonly problem: string } {
  try {
    const before: unknown = JSON.parse(payload)
    const after = mergePatch(before, patch)
    if (isDeepStrictEqual(before, after)) return { payload }
    const text = JSON.stringify(after)
    if (text.length <= MAX_PAYLOAD) return { payload: text }
    return { problem: `it would be ${text.length} characters long, and ${MAX_PAYLOAD} are allowed` }
  } catch {
    return { problem: 'it is not JSON' }
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
