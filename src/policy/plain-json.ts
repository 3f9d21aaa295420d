/**
 * The JSON of a value, which must be there in full: where `JSON.stringify` would leave something out without a word
 * (a function, NaN, the entries of a Map), this throws a TypeError that names it. `undefined` has no JSON.
 */
export function plainJson(value: unknown): string | undefined {
  return JSON.stringify(value, (name, part: unknown) => {
    const lost = whatIsLost(part)
    if (lost !== undefined) throw new TypeError(`JSON cannot hold ${lost}${name && ` ('${name.slice(0, 40)}')`}`)
    return part
  })
}

/** Why `plainJson` failed, on one line: an object that contains itself gets several from Node. */
export function problemOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n', 1).join()
}

function whatIsLost(part: unknown): string | undefined {
  switch (typeof part) {
    case 'bigint':
    case 'function':
    case 'symbol':
      return `a ${typeof part}`
    case 'number':
      return Number.isFinite(part) ? undefined : String(part)
    case 'object':
      return part !== null && isHollow(part) ? `the contents of a ${part.constructor.name}` : undefined
    default:
      return undefined
  }
}

/** An object of a class that keeps its contents where JSON does not look: a Map, a Set, an Error, a Response. */
function isHollow(value: object): boolean {
  if (value instanceof Error) return true
  if (Array.isArray(value) || Object.keys(value).length > 0) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  // The prototype of plain objects is the one without a parent, in whichever realm it was made.
  return prototype !== null && Object.getPrototypeOf(prototype) !== null
}
