import { jsonTokens } from '../../policy/internal.js'

/**
 * Whether JSON texts contain an object, which is JSON too, as `@>` of PostgreSQL's `jsonb` sees it: an object has at least
 * these fields, an array at least these elements, in any order, and anything else is equal. Numbers are compared by their
 * digits: 1.0 is 1, and 9007199254740993 is not 9007199254740992. A text that is not JSON contains nothing.
 */
export function containing(part: string): (json: string) => boolean {
  const [rounded, exact] = [JSON.parse(part) as unknown, exactly(part)]
  // Equal numbers are equal when they are rounded, and reading their digits takes ten times as long.
  return json => contains(valueOrNothing(json), rounded) && contains(exactly(json), exact)
}

function valueOrNothing(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** Recurses once per level of what is wanted. */
function contains(value: unknown, wanted: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null) return value === wanted
  if (typeof value !== 'object' || value === null || Array.isArray(value) !== Array.isArray(wanted)) return false
  if (Array.isArray(wanted)) {
    const elements = Object.values(value)
    return wanted.every(each => elements.some(element => contains(element, each)))
  }
  const fields = new Map(Object.entries(value))
  return Object.entries(wanted).every(([name, each]) => fields.has(name) && contains(fields.get(name), each))
}

/** The value with a text for each number: `n` and its digits. Other texts, and the names of fields, begin with `s`. */
function exactly(json: string): unknown {
  const tokens = jsonTokens(json).map(token => {
    if (token.startsWith('"')) return `"s${token.slice(1)}`
    return /^[-\d]/.test(token) ? `"n${digitsOf(token)}"` : token
  })
  return JSON.parse(tokens.join(''))
}

/** The digits of a number, without zeros around them, and the exponent of the last one: the same for equal numbers. */
function digitsOf(number: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(number) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  if (digits === '') return '0'
  let length = digits.length
  while (digits[length - 1] === '0') length--
  const last = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - length)
  return `${sign}${digits.slice(0, length)}e${last}`
}
