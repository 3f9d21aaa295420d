import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { type CommandStartedEvent, type Db, MongoClient } from 'mongodb'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { MemoryBus } from '../bus/index.js'
import {
  type CollectionOptions,
  type DocumentSource,
  documentService,
  openMongodbSource,
  openPostgresSource,
  openSqliteSource,
  sweeper,
} from './index.js'

const MILLION = 1_000_000
const STUCK = 10_000
const MINUTES = 300_000
const COUNT = 'SELECT count(*) AS n FROM "archives"'

const archives: CollectionOptions = {
  name: 'archives',
  time: 'ms',
  fields: { attemptCount: 'attempt_count', lastAttemptTime: 'last_attempt_time' },
  event: { type: 'archive.ingested', data: ({ id }) => ({ archive_id: id }) },
}
const fenced: CollectionOptions = {
  ...archives,
  fields: { ...archives.fields, generation: 'generation', retryAt: 'retry_at' },
}

/** Sweeps with both ways of counting, and lets a service work on one document. */
async function useAll(source: DocumentSource) {
  const bus = new MemoryBus()
  await bus.declare({ parsing: 'archive.ingested' })
  const { collections } = await sweeper({ source, bus, collections: [archives] }).sweep()
  expect(collections).toMatchObject([{ stuck: STUCK, requeued: STUCK, failed: 0 }])
  const again = await sweeper({ source, bus, collections: [archives] }).sweep()
  expect(again.collections).toMatchObject([{ stuck: 0, requeued: 0 }])
  const atBegin = await sweeper({ source, bus, collections: [fenced], stuckAfter: 0 }).sweep()
  expect(atBegin.collections[0]?.failure).toBeUndefined()
  const service = documentService({ source, collection: fenced })
  await service.begin('1')
}

describe('a million documents, of which ten thousand are stuck', () => {
  it('are swept on PostgreSQL without a table scan', { timeout: MINUTES }, async () => {
    const pool = new pg.Pool({ connectionString: await freshDatabase(), max: 4 })
    onTestFinished(() => pool.end())
    const statements = new Map<string, unknown[]>()
    let isRecording = false
    pool.on('connect', client => {
      const query = client.query.bind(client) as (...args: unknown[]) => unknown
      const recording = (
        statement: string | { readonly text: string; readonly values: unknown[] },
        ...rest: unknown[]
      ) => {
        if (isRecording && typeof statement !== 'string') statements.set(statement.text, statement.values)
        return query(statement, ...rest)
      }
      client.query = recording as typeof client.query
    })
    await pool.query(`
      CREATE UNLOGGED TABLE archives (id bigint PRIMARY KEY, status text, attempt_count int, last_attempt_time bigint,
        generation int, retry_at bigint);
      INSERT INTO archives
      SELECT n, CASE WHEN n % 100 = 0 THEN 'pending' ELSE 'processed' END, 1,
             CASE WHEN n % 200 = 0 THEN NULL ELSE 1700000000000 + n END
        FROM generate_series(1, ${MILLION}) n`)
    const source = await openPostgresSource(pool)
    const shapes = sweeper({ source, bus: new MemoryBus(), collections: [fenced] }).collections
    for (const { shape } of shapes) await source.createIndexes(shape)
    await pool.query('ANALYZE archives')

    isRecording = true
    await useAll(source)
    isRecording = false

    const scans: string[] = []
    for (const [text, values] of statements) {
      if (!text.includes('"archives"')) continue
      const { rows } = await pool.query(`EXPLAIN (FORMAT JSON) ${text}`, values)
      if (/"Node Type": "Seq Scan",[^}]*"Relation Name": "archives"/.test(JSON.stringify(rows[0], null, 1)))
        scans.push(text)
    }
    expect(statements.size).toBeGreaterThan(8)
    expect(scans).toEqual([])
  })

  it('are swept on SQLite without a table scan', { timeout: MINUTES }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-million-'))
    const statements = new Set<string>()
    let isRecording = false
    const verbose = (text: unknown) => void (isRecording && statements.add(String(text)))
    const db = new Database(join(folder, 'app.db'), { verbose })
    onTestFinished(() => {
      db.close()
      rmSync(folder, { recursive: true })
    })
    db.pragma('synchronous = OFF')
    db.exec(`
      CREATE TABLE archives (id INTEGER PRIMARY KEY, status TEXT, attempt_count INTEGER, last_attempt_time INTEGER,
        generation INTEGER, retry_at INTEGER);
      INSERT INTO archives (id, status, attempt_count, last_attempt_time)
      WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${MILLION})
      SELECT n, CASE WHEN n % 100 = 0 THEN 'pending' ELSE 'processed' END, 1,
             CASE WHEN n % 200 = 0 THEN NULL ELSE 1700000000000 + n END
        FROM numbers`)
    const source = await openSqliteSource(db)
    const shapes = sweeper({ source, bus: new MemoryBus(), collections: [fenced] }).collections
    for (const { shape } of shapes) await source.createIndexes(shape)

    isRecording = true
    await useAll(source)
    isRecording = false
    const scans: string[] = []
    const kinds = new Set<string>()
    for (const text of statements) {
      // One statement of each kind: values are part of the text.
      const kind = text.replaceAll(/\d+(\.\d+)?/g, 'n')
      // Counting the whole table is a scan, and is asked for only if at least a hundred documents are stuck.
      if (kinds.has(kind) || !/^\s*(SELECT|UPDATE|DELETE)/i.test(text) || text === COUNT) continue
      kinds.add(kind)
      const plan = db.prepare<[], { detail: string }>(`EXPLAIN QUERY PLAN ${text}`).all()
      if (plan.some(({ detail }) => /^SCAN (a|archives)$/.test(detail))) scans.push(text)
    }
    expect(kinds.size).toBeGreaterThan(6)
    expect(scans).toEqual([])
  })

  // FerretDB uses no indexes and explains nothing: this needs a real MongoDB.
  const url = process.env.REDRIVE_TEST_MONGODB_URL
  const title = 'are swept on MongoDB without a collection scan'
  if (url === undefined) process.stderr.write('The plans of MongoDB are not tested: set REDRIVE_TEST_MONGODB_URL.\n')
  const needs = url === undefined ? ' (skipped: needs a real MongoDB, set REDRIVE_TEST_MONGODB_URL)' : ''
  it.skipIf(url === undefined)(`${title}${needs}`, { timeout: 2 * MINUTES }, async () => {
    const client = await new MongoClient(url ?? '', { monitorCommands: true }).connect()
    const db = client.db(`redrive_million_${crypto.randomUUID().slice(0, 8)}`)
    onTestFinished(async () => {
      await db.dropDatabase()
      await client.close()
    })
    for (let from = 1; from <= MILLION; from += STUCK) {
      const documents = Array.from({ length: STUCK }, (_, index) => documentOf(from + index))
      await db.collection<{ _id: number }>('archives').insertMany(documents, { ordered: false })
    }
    const source = await openMongodbSource(db)
    const shapes = sweeper({ source, bus: new MemoryBus(), collections: [fenced] }).collections
    for (const { shape } of shapes) await source.createIndexes(shape)
    const commands = new Map<string, CommandStartedEvent>()
    const record = (event: CommandStartedEvent) => void commands.set(kindOf(event.command), event)
    client.on('commandStarted', record)
    await useAll(source)
    client.off('commandStarted', record)
    const plans = await Promise.all([...commands.values()].map(({ command }) => planOf(db, command)))
    expect(plans.filter(plan => plan !== undefined).length).toBeGreaterThan(6)
    expect(plans.filter(plan => plan?.includes('COLLSCAN'))).toEqual([])
  })
})

const documentOf = (n: number) => ({
  _id: n,
  status: n % 100 === 0 ? 'pending' : 'processed',
  attempt_count: 1,
  ...(n % 200 !== 0 && { last_attempt_time: 1_700_000_000_000 + n }),
})

/** One command of each kind: values are left out. */
function kindOf(command: object): string {
  const { lsid: _, $clusterTime: __, ...rest } = { lsid: undefined, $clusterTime: undefined, ...command }
  return JSON.stringify(rest).replaceAll(/\d+(\.\d+)?/g, 'n')
}

/** The plan of a command that reads or changes documents. */
async function planOf(db: Db, command: Readonly<Record<string, unknown>>): Promise<string | undefined> {
  const { find, aggregate, update, filter, sort, limit, pipeline, updates } = command
  const explained =
    find !== undefined
      ? { find, filter, ...(sort !== undefined && { sort }), ...(limit !== undefined && { limit }) }
      : aggregate !== undefined
        ? { aggregate, pipeline, cursor: {} }
        : update !== undefined
          ? { update, updates }
          : undefined
  if (explained === undefined) return undefined
  return JSON.stringify(await db.command({ explain: explained, verbosity: 'queryPlanner' }))
}
