/** Columns of rows by name, as an SQL function takes them in one JSON. Those of which no row has a value are `undefined`. */
export type Columns = Readonly<Record<string, unknown>>

/** A column of rows. `undefined` if no row has a value. */
export function column<Row, Value>(
  rows: readonly Row[],
  read: (row: Row) => Value | undefined,
): (Value | undefined)[] | undefined {
  // Most columns are absent as a whole.
  return rows.some(row => read(row) !== undefined) ? rows.map(read) : undefined
}

/** A column that is sent once if all rows have the same. */
export function evenColumn<Row, Value>(
  rows: readonly Row[],
  read: (row: Row) => Value | undefined,
): (Value | undefined)[] | undefined {
  const [first] = rows
  if (first === undefined) return undefined
  const value = read(first)
  return value !== undefined && rows.every(row => read(row) === value) ? [value] : column(rows, read)
}

/** JSON of columns. `parts` are JSON already. */
export function columnsJson(columns: Columns, parts: Readonly<Record<string, string | undefined>> = {}): string {
  const fields = [JSON.stringify(columns).slice(1, -1)]
  for (const [name, part] of Object.entries(parts)) if (part !== undefined) fields.push(`"${name}":${part}`)
  return wellFormed(`{${fields.filter(field => field !== '').join()}}`)
}

/** JSON in which halves of surrogate pairs, which PostgreSQL refuses, are U+FFFD, as in all text that becomes UTF-8. */
function wellFormed(json: string): string {
  // JSON.stringify() writes nothing else as such an escape. A backslash may itself be escaped.
  return json.includes('\\ud')
    ? json.replaceAll(/\\(?:u([0-9a-f]{4})|.)/g, (found, code = '') => (code.startsWith('d') ? '\\ufffd' : found))
    : json
}

/**
 * A column of texts as the text of an array, which any client can send. For texts that may be long: the server reads them
 * faster than in JSON.
 */
export function textColumn<Row>(rows: readonly Row[], read: (row: Row) => string | undefined): string | null {
  const values = column(rows, read)
  if (values === undefined) return null
  const isLikeJson = values.every(value => value === undefined || !UNLIKE_JSON.test(value))
  return `{${isLikeJson ? JSON.stringify(values).slice(1, -1) : values.map(element).join()}}`
}

function element(value: string | undefined): string {
  return value === undefined ? 'NULL' : `"${value.replaceAll(/["\\]/g, '\\$&')}"`
}

/**
 * JSON escapes quotes and backslashes as an array does, and writes `null` for a value that is absent, several times as fast
 * as anything by hand. It escapes these too, which an array must not.
 */
const UNLIKE_JSON = /[\0-\x1f\ud800-\udfff]/
