import type { Pool, PoolClient, PoolOptions } from 'pg'
import { persist } from '../../attempt/index.js'
import { hostIn } from '../../bus/internal.js'
import { type Duration, hashJson, MissingPackageError, OptionError, parseDuration, policy } from '../../policy/index.js'
import { DURATION, mustBe } from '../../policy/internal.js'
import { isPool, readStoreUrl } from '../../store/postgres/internal.js'
import type { Shape } from '../collection.js'
import type { PostgresPool } from '../drivers.js'
import { changed, recordOf } from '../record.js'
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
import { column, identifier } from '../sql/names.js'
import { indexParts, isFailed, pageQuery, priorityWalk, walksOf } from '../sql/walks.js'
import { changeQuery, copyQuery, oldRow, removeQuery } from './change.js'
import { exactTypes } from './exact-types.js'
import { runAlone, runLimited } from './limited.js'
import { idOf, type Table, Tables } from './table.js'

type Row = Readonly<Record<string, unknown>>

/** Options of `openPostgresSource`. @inline */
export interface PostgresSourceOptions {
  /** How long connecting, and each answer, may take. Default 60 s. */
  readonly timeout?: Duration
}

const MAX_CONNECTIONS = 4

/** Building an index may take this many times as long as an answer. */
const INDEX_PATIENCE = 60

/** Two transactions conflicted, and this one was rolled back. */
const CONFLICT = /^(40001|40P01)$/
/** The data breaks a constraint or a type, or a trigger raised an exception. */
const REFUSAL = /^(22|23|44|P0001)/
const UNTIL_NO_CONFLICT = /* @__PURE__ */ policy({ attempts: 10, backoff: { base: '1ms', max: '200ms' } })

/**
 * Opens the tables of a PostgreSQL database as a source, by its URL or on a pool of your own, which closing the source does
 * not end. Needs the package `pg`.
 *
 * ```ts
 * const source = await openPostgresSource('postgres://localhost/app')
 * ```
 */
export async function openPostgresSource(
  at: string | PostgresPool,
  { timeout = '60s' }: PostgresSourceOptions = {},
): Promise<DocumentSource> {
  const timeoutMs = parseDuration(timeout)
  if (timeoutMs === undefined || timeoutMs < 1) throw new OptionError('timeout', mustBe('timeout', DURATION, timeout))
  if (isPool(at)) return new PostgresSource(at, timeoutMs, async () => {})
  const { url, schema = 'public' } = readStoreUrl('url', at)
  // Other tools write it into their URLs, and it is where tables are looked for anyway.
  if (schema !== 'public')
    throw new OptionError('url', `A source has no schema. Name it with each table, such as '${schema}.archives'.`)
  const { default: driver } = await import('pg').catch(cause => {
    throw new MissingPackageError('The PostgreSQL source', 'pg', '^8.23', { cause })
  })
  const pool = new driver.Pool({
    connectionString: url,
    max: MAX_CONNECTIONS,
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    application_name: 'redrive',
  })
  // An idle connection that breaks is replaced when it is needed. Without a listener, it would end the process.
  pool.on('error', () => {})
  return new PostgresSource(pool, timeoutMs, () => pool.end())
}

const DEFAULT_PORT = 5432

/** The address of a pool's database, as far as its options tell: what they leave out comes from the environment. */
function addressOf({ connectionString, host = '', port, database = '' }: PoolOptions): string {
  if (connectionString === undefined)
    return `postgres://${hostIn({ hostname: host, port: String(port ?? '') }, DEFAULT_PORT)}/${database}`
  // A socket needs no host, without which a URL cannot have a user.
  const text = connectionString.replace('@/', '@localhost/')
  if (!URL.canParse(text)) return 'postgres:'
  const url = new URL(text)
  // A socket is named by a parameter.
  const socket = url.searchParams.get('host')
  return `postgres://${hostIn(url, DEFAULT_PORT)}${url.pathname}${socket === null ? '' : `?host=${socket}`}`
}

/** Documents in the tables of a PostgreSQL database. */
class PostgresSource implements DocumentSource {
  readonly address: string
  readonly #pool: Pool
  readonly #timeoutMs: number
  readonly #close: () => Promise<void>
  readonly #tables = new Tables((text, values) => this.#query(text, values))

  constructor(pool: Pool, timeoutMs: number, close: () => Promise<void>) {
    this.address = addressOf(pool.options)
    this.#pool = pool
    this.#timeoutMs = timeoutMs
    this.#close = close
  }

  async now(): Promise<number> {
    const [row] = await this.#query('SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now')
    return Number(row?.now)
  }

  async survey(shape: Shape, cut: Cut): Promise<Survey> {
    const table = await this.#tables.of(shape)
    const oldest = table.ms(shape.fields.createdAt ?? shape.fields.lastAttemptTime)
    let stuck = 0
    let oldestAt: number | undefined
    for (const { where } of walksOf(shape, { type: 'stuck', cut }, table)) {
      const text = `SELECT count(*)::float8 AS n, min(${oldest})::float8 AS oldest FROM ${identifier(shape.name)} a WHERE ${where}`
      const [row] = await this.#named(text, { ...cut })
      stuck += Number(row?.n)
      if (typeof row?.oldest === 'number' && Number.isFinite(row.oldest))
        oldestAt = Math.min(oldestAt ?? row.oldest, row.oldest)
    }
    const [row] = await this.#query(
      `SELECT count(*)::float8 AS n FROM ${identifier(shape.name)} a WHERE ${isFailed(shape)}`,
    )
    return { stuck, failed: Number(row?.n), oldestAt }
  }

  /** The planner's estimate, where there is one: counting a large table takes long. */
  async total(shape: Shape): Promise<number> {
    await this.#tables.of(shape)
    const estimate = 'SELECT reltuples::float8 AS n FROM pg_class WHERE oid = $1::regclass'
    const [estimated] = await this.#query(estimate, [identifier(shape.name)])
    if (Number(estimated?.n) > 0) return Number(estimated?.n)
    const [counted] = await this.#query(`SELECT count(*)::float8 AS n FROM ${identifier(shape.name)}`)
    return Number(counted?.n)
  }

  async *walk(
    shape: Shape,
    selection: Selection,
    { pageSize, order }: DocumentWalkOptions,
  ): AsyncIterable<DocumentRecord[]> {
    const table = await this.#tables.of(shape)
    const walks = order === 'priority' ? [priorityWalk(shape, selection, table)] : walksOf(shape, selection, table)
    const given = selection.type === 'stuck' ? selection.cut : {}
    for (const walk of walks) {
      const select = `${table.select}, (${walk.order[0]})::text AS "redrive:sort"`
      let after: Row | undefined
      for (;;) {
        const text = pageQuery(select, identifier(shape.name), walk, after === undefined)
        const rows = await this.#named(text, { ...given, ...after, limit: pageSize })
        if (rows.length > 0) yield rows.map(row => toRecord(table, row))
        const last = rows.at(-1)
        if (last === undefined || rows.length < pageSize) break
        after = { id: last['redrive:id'], sort: last['redrive:sort'] }
      }
    }
  }

  async find(shape: Shape, id: string): Promise<DocumentRecord | undefined> {
    const table = await this.#tables.of(shape)
    const where = `${column(idOf(shape))} = ${table.key('id', idOf(shape))}`
    const text = `SELECT ${table.select} FROM ${identifier(shape.name)} a WHERE ${where}`
    const [row] = await this.#named(text, { id }).catch(error => {
      // A text that cannot be an id, such as 'x' for a uuid, is the id of no document.
      if (sqlState(error).startsWith('22')) return []
      throw error
    })
    return row && toRecord(table, row)
  }

  async change(shape: Shape, changes: readonly Change[], onRefused?: OnRefused): Promise<DocumentRecord[]> {
    if (changes.length === 0) return []
    const table = await this.#tables.of(shape)
    try {
      return await this.#changeAll(table, changes)
    } catch (error) {
      if (onRefused === undefined || !isRefusal(error)) throw error
      return this.#changeParts(table, changes, onRefused)
    }
  }

  async #changeAll(table: Table, changes: readonly Change[], on?: PoolClient): Promise<DocumentRecord[]> {
    const { text, values } = changeQuery(table, changes)
    const rows = await this.#query(text, values, on)
    const byId = new Map(rows.map(row => [String(row['redrive:id']), row]))
    return changes.flatMap(({ document, to }) => {
      const row = byId.get(document.id)
      return row === undefined ? [] : [changed(document, to, oldRow(row))]
    })
  }

  /**
   * Changes what can be changed, by halves. A refused statement may hold its locks for a moment after its error, and so hide
   * rows from the next one on another connection: all run on one, and rows that were hidden are tried once more.
   */
  async #changeParts(table: Table, changes: readonly Change[], onRefused: OnRefused): Promise<DocumentRecord[]> {
    const left = new Map(changes.map(change => [change.document.id, change]))
    const done: DocumentRecord[] = []
    const change = async (part: readonly Change[], on: PoolClient): Promise<void> => {
      const [first] = part
      if (first === undefined) return
      try {
        const changed = await this.#changeAll(table, part, on)
        for (const { id } of changed) left.delete(id)
        done.push(...changed)
      } catch (error) {
        if (!isRefusal(error)) throw error
        if (part.length > 1) {
          const half = Math.ceil(part.length / 2)
          await change(part.slice(0, half), on)
          await change(part.slice(half), on)
          return
        }
        left.delete(first.document.id)
        onRefused(first.document, error)
      }
    }
    await this.#lend(async client => {
      await change(changes, client)
      await change([...left.values()], client)
    })
    return done
  }

  async remove(shape: Shape, documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    if (documents.length === 0) return []
    const table = await this.#tables.of(shape)
    const { text, values } = removeQuery(table, documents)
    const removed = new Set((await this.#query(text, values)).map(row => String(row['redrive:id'])))
    return documents.filter(({ id }) => removed.has(id))
  }

  async copy(shape: Shape, documents: readonly DocumentRecord[], into: string): Promise<void> {
    if (documents.length === 0) return
    const table = await this.#tables.of(shape)
    const { text, values } = copyQuery(table, documents, into, await this.#tables.columnsToCopy(table, into))
    await this.#query(text, values)
  }

  async present(collection: string, field: string, documents: readonly DocumentRecord[]): Promise<Set<string>> {
    const type = await this.#tables.typeOfColumn(collection, field)
    const text = `
      SELECT given.id
        FROM unnest($1::text[]) AS given (id)
       WHERE EXISTS (SELECT FROM ${identifier(collection)} a WHERE ${column(field)} = given.id::${type})`
    const rows = await this.#query(text, [documents.map(({ id }) => id)])
    return new Set(rows.map(({ id }) => String(id)))
  }

  async indexes(shape: Shape): Promise<string[]> {
    return this.#indexes(shape).then(indexes => indexes.map(({ text }) => text))
  }

  /** `CREATE INDEX CONCURRENTLY` leaves an invalid index behind if it fails. Such an index is made anew. */
  async createIndexes(shape: Shape): Promise<void> {
    for (const { name, text } of await this.#indexes(shape)) {
      const invalid = 'SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid'
      if ((await this.#query(invalid, [name])).length > 0) await this.#build(`DROP INDEX CONCURRENTLY ${name}`)
      await this.#build(text)
    }
  }

  async close(): Promise<void> {
    await this.#close()
  }

  async #indexes(shape: Shape): Promise<{ name: string; text: string }[]> {
    const table = await this.#tables.of(shape)
    const path = shape.name.split('.')
    const schema = path.slice(0, -1)
    return indexParts(shape, table).map(([suffix, columns, where]) => {
      const index = indexName(path.at(-1) ?? '', suffix)
      const include = suffix === 'open' ? ` INCLUDE ("${shape.fields.attemptCount}")` : ''
      const on = `${identifier(shape.name)} (${columns})${include}`
      return {
        name: identifier([...schema, index].join('.')),
        text: `CREATE INDEX CONCURRENTLY IF NOT EXISTS "${index}" ON ${on} WHERE ${where}`,
      }
    })
  }

  /** Runs a statement whose values are written as `@name`. */
  #named(text: string, named: Row): Promise<Row[]> {
    const values: unknown[] = []
    const places = new Map<string, number>()
    const numbered = text.replaceAll(/@(\w+)/g, (_, name: string) => {
      if (!places.has(name)) places.set(name, values.push(named[name]))
      return `$${places.get(name)}`
    })
    return this.#query(numbered, values)
  }

  #query(text: string, values: unknown[] = [], on?: PoolClient): Promise<Row[]> {
    const classify = (error: unknown) => (CONFLICT.test(sqlState(error)) ? 'retryable' : 'final')
    const run = (client: PoolClient) => runLimited(client, { text, values, types: exactTypes(client) }, this.#timeoutMs)
    return persist(() => (on === undefined ? this.#lend(run) : run(on)), UNTIL_NO_CONFLICT, { classify })
  }

  #build(text: string): Promise<Row[]> {
    return this.#lend(client => runAlone(client, { text }, INDEX_PATIENCE * this.#timeoutMs))
  }

  /** Lends a connection of the pool. One that failed is closed. */
  async #lend<T>(use: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect()
    // A connection that breaks fails its statement as well. Without a listener, it would end the process.
    const ignore = () => {}
    client.on('error', ignore)
    try {
      const result = await use(client)
      client.off('error', ignore)
      client.release()
      return result
    } catch (error) {
      client.release(true)
      throw error
    }
  }
}

function toRecord(table: Table, row: Row): DocumentRecord {
  const data: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(row)) if (!name.startsWith('redrive:')) data[name] = value
  const value = (name: string) => row[`redrive:${name}`]
  const raw = {
    id: value('id'),
    status: value('status'),
    attemptCount: value('attemptCount'),
    lastAttemptTime: value('lastMs'),
    generation: value('generation'),
    retryAt: value('retryMs'),
    dispatches: value('dispatches'),
    createdAt: value('createdMs'),
    lastError: value('lastError'),
  }
  const readMs = (ms: unknown) => (typeof ms === 'number' ? ms : undefined)
  return recordOf(table.shape, raw, data, readMs, oldRow(row))
}

/** PostgreSQL cuts a name after 63 bytes: the indexes of a table with a long name would all have the same. */
function indexName(table: string, suffix: string): string {
  const name = `${table}_redrive_${suffix}`
  return Buffer.byteLength(name) <= 63 ? name : `redrive_${hashJson(table).slice(0, 16)}_${suffix}`
}

function isRefusal(error: unknown): boolean {
  return REFUSAL.test(sqlState(error))
}

function sqlState(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : ''
}
