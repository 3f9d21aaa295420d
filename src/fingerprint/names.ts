import { DIGIT, JOINT } from './characters.js'
import { MASK, maskName, maskWord } from './mask-word.js'

const MAX_NAME = 60
/** An identifier, a dotted path, a package or a function. */
const NAME = /^(?:\.{1,2}\/){0,9}[@$]?[A-Za-z_](?:[\w$@./*-]*[\w$*])?(?:\(\))?$/
/** A status, an exit code, an SQLSTATE. */
const CODE = /^(?:-?\d{1,5}|[\dA-Z]{5})$/
const NUMBERED_LABEL = /code|status/i

/** Whether a text can be a name: of a column, a table, a property, a package. */
export function isName(text: string): boolean {
  return text.length <= MAX_NAME && NAME.test(text)
}

/** Whether a name reads the same without quotes. */
export function isPlainName(name: string): boolean {
  return /^[A-Za-z_]/.test(name)
}

/** The value of a label as it is part of a pattern; `undefined` if it varies. */
export function labelValue(label: string, value: string): string | undefined {
  if (NUMBERED_LABEL.test(label) && CODE.test(value)) return value
  if (!isName(value)) return undefined
  const name = maskName(value)
  return value.includes('/') && maskWord(value, JOINT | DIGIT) === MASK ? undefined : name
}

/** The value of a label that is a list, such as the path of a validation issue: `items.*.sku`. */
export function listValue(list: string): string | undefined {
  const parts = list.split(',').map(part => part.trim().replace(/^\\?["'`]|\\?["'`]$/g, ''))
  const value = parts.map(part => (isName(part) ? maskName(part) : MASK)).join('.')
  return list.trim() === '' || value.length > MAX_NAME ? undefined : value
}

/** `key=value`, with what varies in the key masked. */
export function pair(key: string, value = MASK): string {
  const name = maskName(key)
  return name === MASK ? MASK : `${name}=${value}`
}
