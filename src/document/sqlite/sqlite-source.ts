import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { OptionError } from '../../policy/index.js'
import { isObject } from '../../policy/internal.js'
import { type Connection, loadDriver, sqliteCode, sqliteFile, waitingForLock } from '../../store/sqlite/internal.js'
import { type Clock, systemClock } from '../../time/index.js'
import type { Shape } from '../collection.js'
import type { SqliteConnection } from '../drivers.js'
import { NoCollectionError, NoFieldError } from '../errors.js'
import { changed } from '../record.js'
import type {
  Change,
  Cut,
  DocumentRecord,
  DocumentSource,
  DocumentWalkOptions,
  OnRefused,
  Selection,
  Survey,
} from '../source.js'
import { column, quote } from '../sql/names.js'
import { indexParts, isFailed, pageQuery, priorityWalk, type Walk, walksOf } from '../sql/walks.js'
import {
  asRow,
  dialectOf,
  idOf,
  isAsRead,
  moments,
  newValues,
  oldValues,
  type Row,
  SORT,
  timeOf,
  toRecord,
} from './rows.js'

/** Options of `openSqliteSource`. @inline */
export interface SqliteSourceOptions {
  /** The source of time. Default: the system clock, which is that of the database too. */
  readonly clock?: Clock
}

/**
 * Opens the tables of a SQLite file as a source, by its path or on a connection of your own, which closing the source leaves
 * open. Needs the package `better-sqlite3`.
 *
 * ```ts
 * const source = await openSqliteSource('./app.db')
 * ```
 */
export async function openSqliteSource(
  at: string | SqliteConnection,
  { clock = systemClock }: SqliteSourceOptions = {},
): Promise<DocumentSource> {
  if (isConnection(at)) return new SqliteSource(at, clock, () => {})
  const path = sqliteFile(at)
  const driver = await loadDriver()
  try {
    // A timeout of 0: the driver would wait on the event loop.
    const db = new driver(path, { timeout: 0, fileMustExist: true })
    return new SqliteSource(db, clock, () => db.close())
  } catch (error) {
    // For a missing folder, the driver throws a TypeError.
    if (!sqliteCode(error).startsWith('SQLITE_CANTOPEN') && existsSync(path)) throw error
    throw new OptionError('path', `There is no SQLite file '${path}'. Check the path of the source.`)
  }
}

function isConnection(at: unknown): at is Connection {
  return isObject(at) && typeof at.prepare === 'function'
}

/** Documents in the tables of a SQLite file. */
class SqliteSource implements DocumentSource {
  readonly address: string
  readonly #db: Connection
  readonly #clock: Clock
  readonly #close: () => void
  readonly #checked = new WeakSet<Shape>()

  constructor(db: Connection, clock: Clock, close: () => void) {
    this.address = `sqlite:${resolve(db.name)}`
    this.#db = db
    this.#clock = clock
    this.#close = close
  }

  async now(): Promise<number> {
    await this.#run(() => this.#db.pragma('schema_version'))
    return Math.floor(this.#clock.now())
  }

  async survey(shape: Shape, cut: Cut): Promise<Survey> {
    const dialect = dialectOf(shape)
    const table = quote(shape.name)
    const name = shape.fields.createdAt ?? shape.fields.lastAttemptTime
    let stuck = 0
    let oldestAt: number | undefined
    for (const { where } of walksOf(shape, { type: 'stuck', cut }, dialect)) {
      // With one min(), SQLite takes the other columns from the row that has it.
      const text = `SELECT count(*) AS n, min(${dialect.time(name)}), ${column(name)} AS oldest FROM ${table} a WHERE ${where}`
      const [row] = await this.#all(shape, text, moments(shape, cut))
      stuck += Number(row?.n)
      const at = timeOf(shape, row?.oldest)
      if (at !== undefined) oldestAt = Math.min(oldestAt ?? at, at)
    }
    const [failed] = await this.#all(shape, `SELECT count(*) AS n FROM ${table} a WHERE ${isFailed(shape)}`)
    return { stuck, failed: Number(failed?.n), oldestAt }
  }

  async total(shape: Shape): Promise<number> {
    const [row] = await this.#all(shape, `SELECT count(*) AS n FROM ${quote(shape.name)}`)
    return Number(row?.n)
  }

  async *walk(
    shape: Shape,
    selection: Selection,
    { pageSize, order }: DocumentWalkOptions,
  ): AsyncIterable<DocumentRecord[]> {
    const dialect = dialectOf(shape)
    const walks = order === 'priority' ? [priorityWalk(shape, selection, dialect)] : walksOf(shape, selection, dialect)
    const given = selection.type === 'stuck' ? moments(shape, selection.cut) : {}
    for (const walk of walks) {
      let after: object | undefined
      for (;;) {
        const text = pageText(shape, walk, after === undefined)
        const rows = await this.#all(shape, text, { ...given, ...after, limit: pageSize })
        if (rows.length > 0) yield rows.map(row => toRecord(shape, row))
        const last = rows.at(-1)
        if (last === undefined || rows.length < pageSize) break
        after = { id: last[idOf(shape)], sort: last[SORT] }
      }
    }
  }

  async find(shape: Shape, id: string): Promise<DocumentRecord | undefined> {
    const text = `SELECT a.* FROM ${quote(shape.name)} a WHERE ${column(idOf(shape))} IN (${placesOf(formsOf(id))})`
    const [row] = await this.#all(shape, text, formsOf(id))
    return row && toRecord(shape, row)
  }

  change(shape: Shape, changes: readonly Change[], onRefused?: OnRefused): Promise<DocumentRecord[]> {
    return this.#write(shape, () =>
      changes.flatMap(change => {
        try {
          return this.#changeOne(shape, change)
        } catch (error) {
          if (onRefused === undefined || !sqliteCode(error).startsWith('SQLITE_CONSTRAINT')) throw error
          onRefused(change.document, error)
          return []
        }
      }),
    )
  }

  #changeOne(shape: Shape, { document, to }: Change): DocumentRecord[] {
    const values = newValues(shape, to)
    const names = Object.keys(values)
    if (names.length === 0) return [document]
    const assignments = names.map((name, index) => `${quote(name)} = @new${index}`)
    const given = Object.fromEntries(names.map((name, index) => [`new${index}`, values[name]]))
    const text = `UPDATE ${quote(shape.name)} AS a SET ${assignments.join(', ')} WHERE ${isAsRead(shape)}`
    const { changes: updated } = this.#db.prepare(text).run({ ...oldValues(shape, document), ...given })
    return updated === 0 ? [] : [changed(document, to, { ...asRow(document), ...values })]
  }

  remove(shape: Shape, documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    return this.#write(shape, () => {
      const statement = this.#db.prepare(`DELETE FROM ${quote(shape.name)} AS a WHERE ${isAsRead(shape)}`)
      return documents.filter(document => statement.run(oldValues(shape, document)).changes > 0)
    })
  }

  async copy(shape: Shape, documents: readonly DocumentRecord[], into: string): Promise<void> {
    await this.#write(shape, () => {
      const names = this.#columnsOf(shape.name)
      const missing = names.filter(name => !this.#columnsOf(into).includes(name))
      if (missing.length > 0) throw new NoFieldError(into, missing)
      const columns = names.map(quote).join(', ')
      const isSame = `a WHERE ${isAsRead(shape)}`
      const remove = this.#db.prepare(
        `DELETE FROM ${quote(into)} WHERE ${quote(idOf(shape))} IN (SELECT ${column(idOf(shape))} FROM ${quote(shape.name)} ${isSame})`,
      )
      const insert = this.#db.prepare(
        `INSERT INTO ${quote(into)} (${columns}) SELECT ${columns} FROM ${quote(shape.name)} ${isSame}`,
      )
      for (const document of documents) {
        const old = oldValues(shape, document)
        remove.run(old)
        insert.run(old)
      }
      return []
    })
  }

  async present(collection: string, field: string, documents: readonly DocumentRecord[]): Promise<Set<string>> {
    return this.#run(() => {
      if (!this.#columnsOf(collection).includes(field)) throw new NoFieldError(collection, [field])
      const forms = documents.flatMap(({ id }) => formsOf(id))
      const text = `SELECT DISTINCT ${column(field)} AS value FROM ${quote(collection)} a WHERE ${column(field)} IN (${placesOf(forms)})`
      const rows = this.#db.prepare<unknown[], Row>(text).safeIntegers().all(forms)
      return new Set(rows.map(({ value }) => String(value)))
    })
  }

  async indexes(shape: Shape): Promise<string[]> {
    return indexParts(shape, dialectOf(shape)).map(([suffix, columns, where]) => {
      const name = quote(`${shape.name}_redrive_${suffix}`)
      return `CREATE INDEX IF NOT EXISTS ${name} ON ${quote(shape.name)} (${columns}) WHERE ${where}`
    })
  }

  async createIndexes(shape: Shape): Promise<void> {
    const statements = await this.indexes(shape)
    await this.#write(shape, () => statements.map(statement => this.#db.exec(statement)))
  }

  async close(): Promise<void> {
    this.#close()
  }

  #all(shape: Shape, text: string, values: object = {}): Promise<Row[]> {
    return this.#run(() => {
      this.#check(shape)
      return this.#db.prepare<object, Row>(text).safeIntegers().all(values)
    })
  }

  #write<T>(shape: Shape, work: () => T[]): Promise<T[]> {
    return this.#run(() => {
      this.#check(shape)
      return this.#db.transaction(work).immediate()
    })
  }

  #run<T>(action: () => T): Promise<T> {
    return waitingForLock(this.#db.name, action)
  }

  /** A missing table or column is reported by name: SQLite would take an unknown name in quotes for a text. */
  #check(shape: Shape): void {
    if (this.#checked.has(shape)) return
    const columns = this.#columnsOf(shape.name)
    const wanted = [...Object.values(shape.fields), idOf(shape), shape.priority].filter(name => name !== undefined)
    const missing = wanted.filter(name => !columns.includes(name))
    if (missing.length > 0) throw new NoFieldError(shape.name, [...new Set(missing)])
    this.#checked.add(shape)
  }

  /** The columns of a table that can be written. */
  #columnsOf(table: string): string[] {
    const columns = this.#db.prepare<string, string>('SELECT name FROM pragma_table_info(?)').pluck().all(table)
    if (columns.length === 0) throw new NoCollectionError(table)
    return columns
  }
}

/** An id as text stands for a number too: a column without a type does not convert one into the other. */
function formsOf(id: string): (string | bigint)[] {
  return /^-?\d{1,18}$/.test(id) ? [id, BigInt(id)] : [id]
}

function placesOf(values: readonly unknown[]): string {
  return values.map(() => '?').join(', ')
}

function pageText(shape: Shape, walk: Walk, isFirst: boolean): string {
  return pageQuery(`a.*, ${walk.order[0]} AS "${SORT}"`, quote(shape.name), walk, isFirst)
}
