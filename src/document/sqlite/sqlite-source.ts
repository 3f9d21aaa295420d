import { OptionError } from '../../policy/index.js'
import { type Connection, loadDriver, sqliteCode, waitingForLock } from '../../store/sqlite/internal.js'
import { type Clock, systemClock } from '../../time/index.js'
import type { FieldNames, Shape, TimeFormat } from '../collection.js'
import { NoCollectionError, NoFieldError } from '../errors.js'
import { changed, type RawFields, recordOf } from '../record.js'
import type {
  Change,
  Cut,
  DocumentRecord,
  DocumentSource,
  DocumentWalkOptions,
  NewValues,
  Selection,
  Survey,
} from '../source.js'
import { column, identifier } from '../sql/names.js'
import { type Dialect, indexParts, isFailed, pageQuery, priorityWalk, type Walk, walksOf } from '../sql/walks.js'

type Row = Readonly<Record<string, unknown>>

/** The order of a row within its walk, beside the user's own columns. */
const SORT = 'redrive:sort'

/** Options of `openSqliteSource`. */
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
  at: string | Connection,
  { clock = systemClock }: SqliteSourceOptions = {},
): Promise<DocumentSource> {
  if (typeof at !== 'string') return new SqliteSource(at, clock, () => {})
  const driver = await loadDriver()
  try {
    // A timeout of 0: the driver would wait on the event loop.
    const db = new driver(at, { timeout: 0, fileMustExist: true })
    return new SqliteSource(db, clock, () => db.close())
  } catch (error) {
    if (!sqliteCode(error).startsWith('SQLITE_CANTOPEN')) throw error
    throw new OptionError('path', `There is no SQLite file '${at}'. Check the path of the source.`)
  }
}

/** Documents in the tables of a SQLite file. */
class SqliteSource implements DocumentSource {
  readonly #db: Connection
  readonly #clock: Clock
  readonly #close: () => void
  readonly #checked = new WeakSet<Shape>()

  constructor(db: Connection, clock: Clock, close: () => void) {
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
    const oldest = dialect.time(shape.fields.createdAt ?? shape.fields.lastAttemptTime)
    const raw = shape.fields.createdAt ?? shape.fields.lastAttemptTime
    let stuck = 0
    let oldestAt: number | undefined
    for (const { where } of walksOf(shape, { type: 'stuck', cut }, dialect)) {
      const text = `SELECT count(*) AS n, min(${oldest}), ${column(raw)} AS oldest FROM ${identifier(shape.name)} a WHERE ${where}`
      const [row] = await this.#all(shape, text, moments(shape, cut))
      stuck += Number(row?.n)
      const at = timeReader(shape)(row?.oldest)
      if (at !== undefined) oldestAt = Math.min(oldestAt ?? at, at)
    }
    const [failed] = await this.#all(
      shape,
      `SELECT count(*) AS n FROM ${identifier(shape.name)} a WHERE ${isFailed(shape)}`,
    )
    return { stuck, failed: Number(failed?.n), oldestAt }
  }

  async total(shape: Shape): Promise<number> {
    const [row] = await this.#all(shape, `SELECT count(*) AS n FROM ${identifier(shape.name)}`)
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
    const text = `SELECT a.* FROM ${identifier(shape.name)} a WHERE ${column(idOf(shape))} = @id`
    const [row] = await this.#all(shape, text, { id })
    return row && toRecord(shape, row)
  }

  change(shape: Shape, changes: readonly Change[]): Promise<DocumentRecord[]> {
    return this.#write(shape, () =>
      changes.flatMap(({ document, to }) => {
        const values = newValues(shape, to)
        const names = Object.keys(values)
        if (names.length === 0) return [document]
        const assignments = names.map((name, index) => `"${name}" = @new${index}`)
        const given = Object.fromEntries(names.map((name, index) => [`new${index}`, values[name]]))
        const text = `UPDATE ${identifier(shape.name)} AS a SET ${assignments.join(', ')} WHERE ${isAsRead(shape)}`
        const { changes: updated } = this.#db.prepare(text).run({ ...oldValues(shape, document), ...given })
        return updated === 0 ? [] : [changed(document, to, { ...asRow(document), ...values })]
      }),
    )
  }

  remove(shape: Shape, documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    return this.#write(shape, () => {
      const statement = this.#db.prepare(`DELETE FROM ${identifier(shape.name)} AS a WHERE ${isAsRead(shape)}`)
      return documents.filter(document => statement.run(oldValues(shape, document)).changes > 0)
    })
  }

  async copy(shape: Shape, documents: readonly DocumentRecord[], into: string): Promise<void> {
    await this.#write(shape, () => {
      for (const { data } of documents) {
        const names = Object.keys(data)
        const columns = names.map(name => `"${name}"`).join(', ')
        const text = `INSERT OR IGNORE INTO ${identifier(into)} (${columns}) VALUES (${names.map(() => '?').join(', ')})`
        this.#db.prepare(text).run(...Object.values(data))
      }
      return []
    })
  }

  async present(collection: string, field: string, documents: readonly DocumentRecord[]): Promise<Set<string>> {
    const places = documents.map(() => '?').join(', ')
    const text = `SELECT DISTINCT ${column(field)} AS value FROM ${identifier(collection)} a WHERE ${column(field)} IN (${places})`
    const rows = await this.#run(() => this.#db.prepare<unknown[], Row>(text).all(...documents.map(({ id }) => id)))
    return new Set(rows.map(({ value }) => String(value)))
  }

  async indexes(shape: Shape): Promise<string[]> {
    return indexParts(shape, dialectOf(shape)).map(
      ([suffix, columns, where]) =>
        `CREATE INDEX IF NOT EXISTS "${shape.name}_redrive_${suffix}" ON ${identifier(shape.name)} (${columns}) WHERE ${where}`,
    )
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
      return this.#db.prepare<object, Row>(text).all(values)
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
    const columns = this.#db.prepare<string, { name: string }>('SELECT name FROM pragma_table_info(?)').all(shape.name)
    if (columns.length === 0) throw new NoCollectionError(shape.name)
    const wanted = [...Object.values(shape.fields), idOf(shape), shape.priority].filter(name => name !== undefined)
    const missing = wanted.filter(name => columns.every(({ name: known }) => known !== name))
    if (missing.length > 0) throw new NoFieldError(shape.name, [...new Set(missing)])
    this.#checked.add(shape)
  }
}

function idOf({ fields }: Shape): string {
  return fields.id ?? 'id'
}

function formatOf({ time = 'iso' }: Shape): TimeFormat {
  return time
}

/** Texts do not sort by time, `Z` and `+02:00` being the same: their Julian day does. */
function dialectOf(shape: Shape): Dialect {
  const isText = formatOf(shape) === 'iso'
  return {
    id: 'id',
    time: name => (isText ? `julianday(${column(name)})` : column(name)),
    moment: parameter => (isText ? `julianday(@${parameter})` : `@${parameter}`),
    key: parameter => `@${parameter}`,
  }
}

function moments(shape: Shape, { now, stuckBefore }: Cut): object {
  return { now: writeTime(shape, now), stuckBefore: writeTime(shape, stuckBefore) }
}

function pageText(shape: Shape, walk: Walk, isFirst: boolean): string {
  return pageQuery(`a.*, ${walk.order[0]} AS "${SORT}"`, identifier(shape.name), walk, isFirst)
}

function writeTime(shape: Shape, ms: number): string | number {
  switch (formatOf(shape)) {
    case 'ms':
      return ms
    case 's':
      return ms / 1000
    default:
      return new Date(ms).toISOString()
  }
}

function timeReader(shape: Shape): (value: unknown) => number | undefined {
  const format = formatOf(shape)
  return value => {
    if (value === null || value === undefined) return undefined
    if (format === 'iso') return typeof value === 'string' ? readIso(value) : undefined
    return typeof value === 'number' ? value * (format === 's' ? 1000 : 1) : undefined
  }
}

/** SQLite writes `2026-01-02 03:04:05`, in UTC; JavaScript would read that as local time. */
function readIso(text: string): number | undefined {
  const isZoned = /(Z|[+-]\d\d:?\d\d)$/i.test(text)
  const at = Date.parse(isZoned || !text.includes(':') ? text : `${text.replace(' ', 'T')}Z`)
  return Number.isNaN(at) ? undefined : at
}

function toRecord(shape: Shape, row: Row): DocumentRecord {
  const { [SORT]: _, ...data } = row
  const value = (name: keyof FieldNames) => {
    const field = name === 'id' ? idOf(shape) : shape.fields[name]
    return field === undefined ? undefined : data[field]
  }
  const raw: RawFields = {
    id: value('id'),
    status: value('status'),
    attemptCount: value('attemptCount'),
    lastAttemptTime: value('lastAttemptTime'),
    generation: value('generation'),
    retryAt: value('retryAt'),
    dispatches: value('dispatches'),
    createdAt: value('createdAt'),
    lastError: value('lastError'),
  }
  return recordOf(shape, raw, data, timeReader(shape), data)
}

function asRow({ asRead }: DocumentRecord): Row {
  return asRead as Row
}

/** The columns that a conditional update compares. */
function comparedColumns({ fields }: Shape): string[] {
  const { status, attemptCount, lastAttemptTime, generation, retryAt } = fields
  return [status, attemptCount, lastAttemptTime, generation, retryAt].filter(name => name !== undefined)
}

function isAsRead(shape: Shape): string {
  const compared = comparedColumns(shape).map((name, index) => `${column(name)} IS @old${index}`)
  return [`${column(idOf(shape))} = @id`, ...compared].join(' AND ')
}

function oldValues(shape: Shape, document: DocumentRecord): object {
  const row = asRow(document)
  const compared = comparedColumns(shape).map((name, index) => [`old${index}`, row[name]] as const)
  return { id: row[idOf(shape)], ...Object.fromEntries(compared) }
}

/** The columns to write, by their names. */
function newValues(shape: Shape, to: NewValues): Record<string, string | number | null> {
  const { fields } = shape
  const time = (ms: number | null | undefined) => (typeof ms === 'number' ? writeTime(shape, ms) : ms)
  const values = [
    [fields.status, to.status],
    [fields.attemptCount, to.attemptCount],
    [fields.lastAttemptTime, time(to.lastAttemptAt)],
    [fields.generation, to.generation],
    [fields.retryAt, time(to.retryAt)],
    [fields.dispatches, to.dispatches],
    [fields.lastError, to.lastError],
  ] as const
  const written: Record<string, string | number | null> = {}
  for (const [name, value] of values) if (name !== undefined && value !== undefined) written[name] = value
  return written
}
