/** A date, which is its first moment in UTC, or a date and a time with its zone. */
const ISO = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?$/

/**
 * Milliseconds since the epoch of ISO 8601 text; `undefined` if it is none. A time without a zone is refused: JavaScript
 * would read it, and text such as `10/03/2030`, in the zone of the machine.
 */
export function parseMoment(text: string): number | undefined {
  const [, date] = ISO.exec(text) ?? []
  // JavaScript makes 2 March of 30 February.
  if (date === undefined || !new Date(Date.parse(date) || 0).toISOString().startsWith(date)) return undefined
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : at
}
