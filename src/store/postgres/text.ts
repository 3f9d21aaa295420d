import type { By } from '../contract/ledger.js'

/** The first character of a text that is stored as JSON. */
const MARK = '\u0001'

/**
 * A text in a form that PostgreSQL can store: as it is, unless it has NUL or half a surrogate pair, as the messages of errors
 * may. Those are stored as JSON, behind a mark.
 */
export function storable(text: string): string
export function storable(text: string | undefined): string | undefined
export function storable(text: string | undefined): string | undefined {
  if (text === undefined || (isStorable(text) && !text.startsWith(MARK))) return text
  return MARK + JSON.stringify(text)
}

/** The text that a stored form stands for. */
export function stored(text: string | undefined): string | undefined {
  return text?.startsWith(MARK) ? (JSON.parse(text.slice(MARK.length)) as string) : text
}

/** Whether PostgreSQL can store a text as it is. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && !/\p{Surrogate}/u.test(text)
}

/** The JSON of what an operator's act replaced, with its texts in the other form. */
export function mappedBefore(json: string | null, map: (text: string) => string | undefined): string | null {
  if (json === null) return null
  return JSON.stringify(JSON.parse(json), (field, value) =>
    FREE_FIELDS.has(field) && typeof value === 'string' ? map(value) : value,
  )
}

/** Texts from people and errors. A payload was checked, and is stored as it is. */
const FREE_FIELDS = new Set(['errorCode', 'errorMessage', 'reason'])

/** The person and the reason, as the SQL functions take them. */
export function byValues(by: By | undefined): (string | null)[] {
  return [storable(by?.who) ?? null, storable(by?.why) ?? null]
}
