/** Begins a text that PostgreSQL could not hold as it is. */
const MARK = '\u0001'

/**
 * A text as PostgreSQL can store it: as it is, unless it has the character 0 or half a pair of surrogates, as the messages
 * of errors may. Those are kept as JSON, behind a mark.
 */
export function storable(text: string): string
export function storable(text: string | undefined): string | undefined
export function storable(text: string | undefined): string | undefined {
  if (text === undefined || (isStorable(text) && !text.startsWith(MARK))) return text
  return MARK + JSON.stringify(text)
}

/** The text that was stored. */
export function stored(text: string | undefined): string | undefined {
  return text?.startsWith(MARK) ? (JSON.parse(text.slice(MARK.length)) as string) : text
}

/** Whether PostgreSQL can hold a text as it is. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && !/\p{Surrogate}/u.test(text)
}
