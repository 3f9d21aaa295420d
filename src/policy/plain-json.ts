/**
 * The JSON of a value, which must be there in full: where `JSON.stringify` would leave something out without a word
 * (a function, NaN, the entries of a Map), this throws a TypeError that names it. `undefined` has no JSON.
 */
export function plainJson(value: unknown): string | undefined {
  // Most values are plain. Looking first is several times as fast as having every part handed to a function.
  if (isPlain(value, DEEP)) return JSON.stringify(value)
  return JSON.stringify(value, (name, part: unknown) => {
    const lost = whatIsLost(part)
    if (lost !== undefined) throw new TypeError(`JSON cannot hold ${lost}${name && ` ('${name.slice(0, 40)}')`}`)
    return part
  })
}

/** Deeper values are not looked at beforehand. One that contains itself is one of them. */
const DEEP = 20

/** Whether a value surely has nothing that JSON leaves out: plain objects, arrays, texts, numbers. */
function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
    case 'undefined':
      return true
    case 'number':
      return Number.isFinite(value)
    case 'object':
      return value === null || (depth > 0 && isPlainObject(value, depth - 1))
    default:
      return false
  }
}

function isPlainObject(value: object, depth: number): boolean {
  if (Array.isArray(value)) return !('toJSON' in value) && value.every(part => isPlain(part, depth))
  if (Object.getPrototypeOf(value) !== Object.prototype || 'toJSON' in value) return false
  for (const name in value) if (!isPlain(Reflect.get(value, name), depth)) return false
  return true
}

/** Why `plainJson` failed, on one line: an object that contains itself gets several from Node. */
export function problemOf(error: unknown): string {
  try {
    const message = error instanceof Error ? error.message : String(error)
    return message.split('\n', 1).join()
  } catch {
    // Thrown by a `toJSON`, it may be a proxy that refuses every question.
    return 'its `toJSON` threw something that cannot be read'
  }
}

function contentsOf(type: string): string {
  return `the contents of ${/^[AEIOU]/.test(type) ? 'an' : 'a'} ${type}`
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
      return part !== null && isHollow(part) ? contentsOf(part.constructor.name) : undefined
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
