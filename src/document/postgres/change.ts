import type { Change, DocumentRecord } from '../source.js'
import { column, identifier, quote } from '../sql/names.js'
import { idOf, type Table } from './table.js'

type Row = Readonly<Record<string, unknown>>

/** The tracking fields as text, exactly as the database holds them. */
interface OldRow {
  readonly id: unknown
  readonly status: unknown
  readonly attemptCount: unknown
  readonly last: unknown
  readonly generation: unknown
  readonly retry: unknown
}

/** The fields of a row that a later conditional update compares. */
export function oldRow(row: Row): OldRow {
  const text = (name: string) => row[`redrive:${name}`] ?? null
  return {
    id: text('id'),
    status: text('status'),
    attemptCount: text('attemptCount'),
    last: text('last'),
    generation: text('generation'),
    retry: text('retry'),
  }
}

/** A list of values, one per document, for `unnest`. */
interface Given {
  readonly name: string
  readonly values: readonly unknown[]
}

/**
 * Updates the documents that are as they were read, in one statement. Rows are locked in the order of their ids, and rows
 * that somebody else has locked are skipped, so sweepers never wait for each other or for a service, nor deadlock.
 */
export function changeQuery(table: Table, changes: readonly Change[]): { text: string; values: unknown[] } {
  const { shape } = table
  const { fields } = shape
  const given = comparedWith(changes.map(({ document }) => document))
  const assignments: string[] = []
  const assign = (field: string | undefined, to: keyof Change['to'], isTime = false) => {
    if (field === undefined || changes.every(change => change.to[to] === undefined)) return
    const name = `new_${to}`
    // A document whose value stays is told from one whose value becomes null.
    const values = changes.map(change => change.to[to] ?? null).map(value => (value === null ? null : String(value)))
    given.push({ name, values }, { name: `set_${to}`, values: changes.map(change => change.to[to] !== undefined) })
    const value = isTime ? table.toTime(`mine."${name}"`, field) : `mine."${name}"::${table.typeOf(field)}`
    assignments.push(`"${field}" = CASE WHEN mine."set_${to}" THEN ${value} ELSE ${column(field)} END`)
  }
  assign(fields.status, 'status')
  assign(fields.attemptCount, 'attemptCount')
  assign(fields.lastAttemptTime, 'lastAttemptAt', true)
  assign(fields.generation, 'generation')
  assign(fields.retryAt, 'retryAt', true)
  assign(fields.dispatches, 'dispatches')
  assign(fields.lastError, 'lastError')
  const text = `
    ${mine(table, given)}
    UPDATE ${identifier(shape.name)} a
       SET ${assignments.length === 0 ? `"${idOf(shape)}" = ${column(idOf(shape))}` : assignments.join(',\n           ')}
      FROM mine
     WHERE ${column(idOf(shape))} = mine.id::${table.typeOf(idOf(shape))}
    RETURNING ${table.tracked}`
  return { text, values: given.map(({ values }) => values) }
}

/** Deletes the documents that are as they were read. */
export function removeQuery(table: Table, documents: readonly DocumentRecord[]): { text: string; values: unknown[] } {
  const { shape } = table
  const given = comparedWith(documents)
  const text = `
    ${mine(table, given)}
    DELETE FROM ${identifier(shape.name)} a
     USING mine
     WHERE ${column(idOf(shape))} = mine.id::${table.typeOf(idOf(shape))}
    RETURNING ${column(idOf(shape))}::text AS "redrive:id"`
  return { text, values: given.map(({ values }) => values) }
}

/** Copies the documents that are as they were read. An earlier copy is replaced, in the same statement. */
export function copyQuery(
  table: Table,
  documents: readonly DocumentRecord[],
  into: string,
  columns: readonly string[],
): { text: string; values: unknown[] } {
  const given = comparedWith(documents)
  const id = quote(idOf(table.shape))
  const names = columns.map(quote).join(', ')
  // The copy reads what was deleted, so that it comes second. Two that copy the same document at once leave one copy.
  const text = `
    ${givenList(given)}, mine AS (
      SELECT ${columns.map(column).join(', ')} ${asRead(table)}
    ), earlier AS (
      DELETE FROM ${identifier(into)} a USING mine WHERE a.${id} = mine.${id} RETURNING TRUE
    )
    INSERT INTO ${identifier(into)} (${names}) OVERRIDING SYSTEM VALUE
    SELECT ${names} FROM mine WHERE (SELECT count(*) FROM earlier) >= 0
    ON CONFLICT DO NOTHING`
  return { text, values: given.map(({ values }) => values) }
}

function comparedWith(documents: readonly DocumentRecord[]): Given[] {
  const old = documents.map(({ asRead }) => asRead as OldRow)
  const names = ['id', 'status', 'attemptCount', 'last', 'generation', 'retry'] as const
  return names.map(name => ({ name, values: old.map(row => row[name]) }))
}

/** The given documents that are as they were read, locked. */
function mine(table: Table, given: readonly Given[]): string {
  return `${givenList(given)}, mine AS (
      SELECT given.*
      ${asRead(table)}
       ORDER BY ${column(idOf(table.shape))}
         FOR UPDATE OF a SKIP LOCKED
    )`
}

function givenList(given: readonly Given[]): string {
  const lists = given.map(({ name }, index) => `$${index + 1}::${name.startsWith('set_') ? 'boolean' : 'text'}[]`)
  return `WITH given AS (
      SELECT * FROM unnest(${lists.join(', ')}) AS list (${given.map(({ name }) => `"${name}"`).join(', ')})
    )`
}

/** The rows \`a\` of the table that are as they were read. */
function asRead(table: Table): string {
  const { shape } = table
  const { fields } = shape
  const isSame = (field: string | undefined, name: string) =>
    field === undefined
      ? ''
      : `\n        AND ${column(field)} IS NOT DISTINCT FROM given."${name}"::${table.typeOf(field)}`
  return `FROM ${identifier(shape.name)} a
        JOIN given ON ${column(idOf(shape))} = given.id::${table.typeOf(idOf(shape))}
       WHERE TRUE${isSame(fields.status, 'status')}${isSame(fields.attemptCount, 'attemptCount')}${isSame(fields.lastAttemptTime, 'last')}${isSame(fields.generation, 'generation')}${isSame(fields.retryAt, 'retry')}`
}
