/**
 * The name of a class, by its prototype. A name on the prototype itself comes first, as the built-in errors have it:
 * that one survives a minifier.
 */
export function classNameOf(prototype: { readonly name?: unknown; readonly constructor?: { readonly name: unknown } }) {
  try {
    if (Object.hasOwn(prototype, 'name') && prototype.name) return prototype.name
  } catch {
    // A getter that works on instances alone, such as DOMException's.
  }
  return prototype.constructor?.name
}
