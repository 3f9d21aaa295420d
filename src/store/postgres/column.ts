/**
 * A column of rows as the text of an array, which any client can send, and the server reads faster than JSON. `null` if no
 * row has a value.
 */
export function column<Row>(rows: readonly Row[], read: (row: Row) => string | number | undefined): string | null {
  let text = ''
  let isEmpty = true
  for (const row of rows) {
    const value = read(row)
    if (text !== '') text += ','
    if (value !== undefined) isEmpty = false
    text += element(value)
  }
  return isEmpty ? null : `{${text}}`
}

/** A column that is sent once if all rows have the same. */
export function evenColumn<Row>(rows: readonly Row[], read: (row: Row) => string | number | undefined): string | null {
  const [first] = rows
  if (first === undefined) return null
  const value = read(first)
  return value !== undefined && rows.every(row => read(row) === value) ? `{${element(value)}}` : column(rows, read)
}

function element(value: string | number | undefined): string | number {
  if (typeof value === 'number') return value
  if (value === undefined) return 'NULL'
  return `"${SPECIAL.test(value) ? value.replaceAll(/["\\]/g, '\\$&') : value}"`
}

const SPECIAL = /["\\]/
