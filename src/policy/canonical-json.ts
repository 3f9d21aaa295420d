/**
 * JSON with one spelling for equal data (RFC 8785): keys sorted, no white space, numbers as ECMAScript writes them.
 * Throws a TypeError for what JSON cannot hold: NaN, infinities, bigints, functions, lone surrogates, cycles.
 */
export function canonicalJson(value: unknown): string {
  return write(value, [])
}

function write(given: unknown, parents: object[]): string {
  const value = hasToJson(given) ? given.toJSON() : given
  if (typeof value === 'string') return text(value)
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value !== 'object')
    throw new TypeError(`JSON cannot hold ${typeof value === 'number' ? value : `a ${typeof value}`}`)
  if (parents.includes(value)) throw new TypeError('JSON cannot hold an object that contains itself')

  const inside = [...parents, value]
  if (Array.isArray(value)) return `[${Array.from(value, item => write(item ?? null, inside)).join(',')}]`
  if (!isPlain(value)) throw new TypeError(`JSON cannot hold a ${value.constructor.name}`)
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([key, member]) => `${text(key)}:${write(member, inside)}`).join(',')}}`
}

function text(value: string): string {
  if (/\p{Surrogate}/u.test(value)) throw new TypeError('JSON cannot hold text with a lone surrogate')
  return JSON.stringify(value)
}

/** A Map or a Set would become `{}`, whatever it holds. */
function isPlain(value: object): boolean {
  return !(value instanceof Map || value instanceof Set)
}

function hasToJson(value: unknown): value is { toJSON(): unknown } {
  return typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function'
}
