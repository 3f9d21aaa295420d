import type { Shape } from '../collection.js'
import { NoCollectionError, NoFieldError } from '../errors.js'
import { column, identifier } from '../sql/names.js'
import type { Dialect } from '../sql/walks.js'

type Query = (text: string, values: unknown[]) => Promise<readonly Readonly<Record<string, unknown>>[]>

/** The name of a table's id column. */
export function idOf({ fields }: Shape): string {
  return fields.id ?? 'id'
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
    const table = this.#columns(shape.name).then(types => new Table(shape, types))
    this.#tables.set(shape, table)
    // A table that is missing now may be there later.
    table.catch(() => this.#tables.delete(shape))
    return table
  }

  /** The type of one column of any table. */
  async typeOfColumn(collection: string, field: string): Promise<string> {
    const type = (await this.#columns(collection)).get(field)
    if (type === undefined) throw new NoFieldError(collection, [field])
    return type
  }

  async #columns(name: string): Promise<ReadonlyMap<string, string>> {
    const text = `
      SELECT attname AS name, format_type(atttypid, atttypmod) AS type
        FROM pg_attribute
       WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`
    const rows = await this.#query(text, [identifier(name)])
    if (rows.length === 0) throw new NoCollectionError(name)
    return new Map(rows.map(row => [String(row.name), String(row.type)]))
  }
}

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
  readonly #types: ReadonlyMap<string, string>

  constructor(shape: Shape, types: ReadonlyMap<string, string>) {
    this.shape = shape
    this.#types = types
    const { fields, priority } = shape
    const wanted = [...Object.values(fields), idOf(shape), priority].filter(name => name !== undefined)
    const missing = wanted.filter(name => !types.has(name))
    if (missing.length > 0) throw new NoFieldError(shape.name, [...new Set(missing)])
    this.tracked = this.#tracked()
    this.select = `a.*, ${this.tracked}`
  }

  typeOf(name: string): string {
    return this.#types.get(name) ?? 'text'
  }

  time(name: string): string {
    return column(name)
  }

  /** Milliseconds, as a value of the type that the last attempt's time has: all times of a table are alike. */
  moment(parameter: string): string {
    return this.toTime(`@${parameter}`, this.shape.fields.lastAttemptTime)
  }

  key(parameter: string, name: string): string {
    return `@${parameter}::text::${this.typeOf(name)}`
  }

  /** A time column in milliseconds, as a number. */
  ms(name: string): string {
    const type = this.typeOf(name)
    const field = column(name)
    if (type.startsWith('timestamp without')) return `round(extract(epoch FROM ${field} AT TIME ZONE 'UTC') * 1000)`
    if (type.startsWith('timestamp')) return `round(extract(epoch FROM ${field}) * 1000)`
    return this.shape.time === 's' ? `${field} * 1000` : field
  }

  /** An expression of milliseconds, as a value of a time column. */
  toTime(ms: string, name: string): string {
    const type = this.typeOf(name)
    const seconds = `to_timestamp(${ms}::float8 / 1000)`
    if (type.startsWith('timestamp without')) return `(${seconds} AT TIME ZONE 'UTC')`
    if (type.startsWith('timestamp')) return seconds
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
