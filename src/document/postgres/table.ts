import { OptionError } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'
import type { Shape } from '../collection.js'
import { NoCollectionError, NoFieldError } from '../errors.js'
import { column, identifier } from '../sql/names.js'
import type { Dialect } from '../sql/walks.js'

type Query = (text: string, values: unknown[]) => Promise<readonly Readonly<Record<string, unknown>>[]>

/** The name of a table's id column. */
export function idOf({ fields }: Shape): string {
  return fields.id ?? 'id'
}

/** A column of a table, as the catalogue has it. */
interface ColumnType {
  readonly type: string
  /** Whether PostgreSQL computes its values. */
  readonly isGenerated: boolean
}

/** The types of tables' columns, each asked for once. */
export class Tables {
  readonly #query: Query
  readonly #tables = new WeakMap<Shape, Promise<Table>>()

  constructor(query: Query) {
    this.#query = query
  }

  of(shape: Shape): Promise<Table> {
    const known = this.#tables.get(shape)
    if (known !== undefined) return known
    const table = this.#columns(shape.name).then(columns => new Table(shape, columns))
    this.#tables.set(shape, table)
    // A table that is missing now may be there later.
    table.catch(() => this.#tables.delete(shape))
    return table
  }

  /** The type of one column of any table. */
  async typeOfColumn(collection: string, field: string): Promise<string> {
    const column = (await this.#columns(collection)).get(field)
    if (column === undefined) throw new NoFieldError(collection, [field])
    return column.type
  }

  /** The columns of a table to copy into another one, which must have them. */
  async columnsToCopy({ columns }: Table, into: string): Promise<string[]> {
    const there = await this.#columns(into)
    const names = [...columns].filter(([, { isGenerated }]) => !isGenerated).map(([name]) => name)
    const missing = names.filter(name => !there.has(name))
    if (missing.length > 0) throw new NoFieldError(into, missing)
    return names
  }

  async #columns(name: string): Promise<ReadonlyMap<string, ColumnType>> {
    const text = `
      SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attgenerated <> '' AS generated
        FROM pg_attribute
       WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`
    const rows = await this.#query(text, [identifier(name)])
    if (rows.length === 0) throw new NoCollectionError(name)
    return new Map(rows.map(row => [String(row.name), { type: String(row.type), isGenerated: row.generated === true }]))
  }
}

const WITHOUT_ZONE = /^timestamp(\(\d\))? without/
const TIMESTAMP = /^timestamp(\(\d\))? with/
const NUMBER = /^(smallint|integer|bigint|real|double|numeric)/

/**
 * A table, with the types of its columns. Values are cast to a column's own type, never a column to another type: that would
 * cost the index. Times are carried as text, since a `Date` has only milliseconds and would never compare as equal.
 */
export class Table implements Dialect {
  readonly id = 'id'
  readonly shape: Shape
  /** All columns, and the tracking fields under names of their own. */
  readonly select: string
  /** The tracking fields alone. */
  readonly tracked: string
  readonly columns: ReadonlyMap<string, ColumnType>

  constructor(shape: Shape, columns: ReadonlyMap<string, ColumnType>) {
    this.shape = shape
    this.columns = columns
    const { fields, priority } = shape
    const wanted = [...Object.values(fields), idOf(shape), priority].filter(name => name !== undefined)
    const missing = wanted.filter(name => !columns.has(name))
    if (missing.length > 0) throw new NoFieldError(shape.name, [...new Set(missing)])
    for (const name of [fields.lastAttemptTime, fields.retryAt, fields.createdAt]) this.#checkTime(name)
    this.tracked = this.#tracked()
    this.select = `a.*, ${this.tracked}`
  }

  typeOf(name: string): string {
    return this.columns.get(name)?.type ?? 'text'
  }

  #checkTime(name: string | undefined): void {
    if (name === undefined || TIMESTAMP.test(this.typeOf(name))) return
    const { name: table, time } = this.shape
    if (NUMBER.test(this.typeOf(name)) && (time === 'ms' || time === 's')) return
    throw new OptionError(
      'time',
      `The column ${quoted(name)} of ${quoted(table)} is of the type ${this.typeOf(name)}. Times must be timestamps, or numbers with 'time' set to 'ms' or 's'.`,
    )
  }

  time(name: string): string {
    return column(name)
  }

  /** Columns may differ: a timestamp is never compared with one of the other kind, which would depend on the session's zone. */
  moment(parameter: string, name: string): string {
    return this.toTime(`@${parameter}`, name)
  }

  key(parameter: string, name: string): string {
    return `@${parameter}::text::${this.typeOf(name)}`
  }

  /** A time column in milliseconds, as a number. */
  ms(name: string): string {
    const type = this.typeOf(name)
    const field = column(name)
    if (WITHOUT_ZONE.test(type)) return `round(extract(epoch FROM ${field} AT TIME ZONE 'UTC') * 1000)`
    if (TIMESTAMP.test(type)) return `round(extract(epoch FROM ${field}) * 1000)`
    return this.shape.time === 's' ? `${field} * 1000` : field
  }

  /** An expression of milliseconds, as a value of a time column. */
  toTime(ms: string, name: string): string {
    const type = this.typeOf(name)
    const seconds = `to_timestamp(${ms}::float8 / 1000)`
    if (WITHOUT_ZONE.test(type)) return `(${seconds} AT TIME ZONE 'UTC')`
    if (TIMESTAMP.test(type)) return seconds
    return this.shape.time === 's' ? `(${ms}::float8 / 1000)::${type}` : `${ms}::${type}`
  }

  #tracked(): string {
    const { fields } = this.shape
    const { generation, retryAt, dispatches, createdAt, lastError, lastAttemptTime } = fields
    const parts = [
      `${column(idOf(this.shape))}::text AS "redrive:id"`,
      `${column(fields.status)}::text AS "redrive:status"`,
      `${column(fields.attemptCount)}::text AS "redrive:attemptCount"`,
      `${column(lastAttemptTime)}::text AS "redrive:last"`,
      `${this.ms(lastAttemptTime)}::float8 AS "redrive:lastMs"`,
    ]
    if (generation !== undefined) parts.push(`${column(generation)}::text AS "redrive:generation"`)
    if (dispatches !== undefined) parts.push(`${column(dispatches)}::text AS "redrive:dispatches"`)
    if (lastError !== undefined) parts.push(`${column(lastError)}::text AS "redrive:lastError"`)
    if (createdAt !== undefined) parts.push(`${this.ms(createdAt)}::float8 AS "redrive:createdMs"`)
    if (retryAt !== undefined)
      parts.push(`${column(retryAt)}::text AS "redrive:retry"`, `${this.ms(retryAt)}::float8 AS "redrive:retryMs"`)
    return parts.join(', ')
  }
}
