import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { MemoryBus } from '../../bus/index.js'
import { type NewDocument, type SourceUnderTest, sourceConformance } from '../../testing/index.js'
import { type CollectionOptions, collectionOf } from '../collection.js'
import { openSqliteSource, sweeper } from '../index.js'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-source-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const COLUMNS = `id TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime, generation INTEGER, retryAt,
  dispatches INTEGER, createdAt, lastError TEXT, priority INTEGER`

let files = 0
const newFile = () => join(folder, `${++files}.db`)

async function open(time: 'iso' | 'ms' | 's'): Promise<SourceUnderTest> {
  const path = newFile()
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  const write = (ms: number | undefined) => {
    if (ms === undefined) return null
    return time === 'iso' ? new Date(ms).toISOString() : time === 's' ? ms / 1000 : ms
  }
  let tables = 0
  return {
    source: await openSqliteSource(path),
    other: await openSqliteSource(path),
    settings: { time },
    create: async () => {
      const name = `documents_${++tables}`
      db.exec(`CREATE TABLE ${name} (${COLUMNS})`)
      return name
    },
    insert: async (collection, documents) => {
      const statement = db.prepare(`INSERT INTO ${collection} (id, status, attemptCount, lastAttemptTime, generation,
        retryAt, createdAt, priority) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
      const values = (document: NewDocument) => [
        document.id,
        document.status ?? null,
        document.attemptCount ?? null,
        write(document.lastAttemptTime),
        document.generation ?? null,
        write(document.retryAt),
        write(document.createdAt),
        document.priority ?? null,
      ]
      db.transaction(() => documents.forEach(document => void statement.run(...values(document))))()
    },
    close: async () => void db.close(),
  }
}

describe.each(['iso', 'ms', 's'] as const)('a SQLite source with times as %s keeps the contract', time => {
  for (const { name, run } of sourceConformance(() => open(time))) it(name, { timeout: 60_000 }, run)
})

describe('a SQLite source', () => {
  const event = { type: 'archive.ingested', data: ({ id }: { id: string }) => ({ id }) }
  async function opened(statements: string, options: Partial<CollectionOptions> = {}) {
    const db = new Database(':memory:')
    onTestFinished(() => void db.close())
    db.exec(statements)
    const source = await openSqliteSource(db)
    const collection: CollectionOptions = { name: 'archives', event, ...options }
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const sweep = async () => (await sweeper({ source, bus, collections: [collection] }).sweep()).collections[0]
    return { db, source, sweep, shape: collectionOf(collection).shape }
  }
  const TABLE = 'id, status, attemptCount, lastAttemptTime'

  it('keeps ids of 64 bits apart, which a number cannot', async () => {
    const { db, source, shape, sweep } = await opened(`
      CREATE TABLE archives (id INTEGER PRIMARY KEY, status, attemptCount, lastAttemptTime);
      INSERT INTO archives (id, status) VALUES (9007199254740993, 'pending'), (9007199254740992, 'processed')`)
    expect(await sweep()).toMatchObject({ requeued: 1 })
    expect(db.prepare('SELECT attemptCount FROM archives ORDER BY id').pluck().all()).toEqual([null, 1])
    const document = await source.find(shape, '9007199254740993')
    expect(document).toMatchObject({ id: '9007199254740993', attemptCount: 1, data: { id: '9007199254740993' } })
    expect(JSON.stringify(document?.data)).toContain('9007199254740993')
  })

  it('finds numbers by their text, in a column without a type too', async () => {
    const { db, source, shape } = await opened(`
      CREATE TABLE archives (${TABLE}); CREATE TABLE derived (archive_id);
      INSERT INTO archives (id, status) VALUES (42, 'processed'), ('43', 'processed'), (44, 'processed');
      INSERT INTO derived VALUES (42), (43)`)
    const documents = []
    for (const id of ['42', '43', '44']) {
      const document = await source.find(shape, id)
      expect(document?.id).toBe(id)
      if (document !== undefined) documents.push(document)
    }
    expect([...(await source.present('derived', 'archive_id', documents))]).toEqual(['42', '43'])
    await expect(source.present('derived', 'archiv_id', documents)).rejects.toMatchObject({ code: 'no_field' })
    expect(db.prepare('SELECT typeof(id) FROM archives').pluck().all()).toEqual(['integer', 'text', 'integer'])
  })

  it('takes tables and columns whose names need quotes', async () => {
    const { db, source, sweep, shape } = await opened(
      `CREATE TABLE "my.odd table-1" ("Order" PRIMARY KEY, "select" TEXT, "the count" INTEGER, "last/time" TEXT);
       INSERT INTO "my.odd table-1" ("Order", "select") VALUES ('a', 'pending')`,
      {
        name: 'my.odd table-1',
        fields: { id: 'Order', status: 'select', attemptCount: 'the count', lastAttemptTime: 'last/time' },
      },
    )
    await source.createIndexes(shape)
    expect(await sweep()).toMatchObject({ requeued: 1 })
    expect(db.prepare('SELECT "the count" FROM "my.odd table-1"').pluck().get()).toBe(1)
  })

  it('reads times as SQLite does, and reports what is none instead of taking it for never', async () => {
    const { sweep } = await opened(`
      CREATE TABLE archives (${TABLE});
      INSERT INTO archives VALUES
        ('zone', 'pending', 1, '2026-01-01T02:00:00+02:00'), ('space', 'pending', 1, '2026-01-01 00:00:00'),
        ('day', 'pending', 1, '2026-01-01'), ('python', 'pending', 1, '2026-01-01T00:00:00.123456+00:00'),
        ('short zone', 'pending', 1, '2026-01-01T00:00:00+0200'), ('number', 'pending', 1, 1767225600000),
        ('word', 'pending', 1, 'yesterday'), ('empty', 'pending', 1, ''), ('blob', 'pending', 1, x'00'),
        ('count', 'pending', 'many', NULL), ('no count', 'pending', '', NULL), ('minus', 'pending', -1, NULL),
        ('null', 'pending', NULL, NULL), (NULL, 'pending', NULL, NULL), (x'0102', 'pending', NULL, NULL)`)
    expect(await sweep()).toMatchObject({ stuck: 15, requeued: 5, documentErrors: 10 })
  })

  it('reports texts where times are numbers, which no comparison would find', async () => {
    const fields = { generation: 'generation', retryAt: 'retryAt' }
    const { sweep } = await opened(
      `CREATE TABLE archives (${TABLE}, generation, retryAt);
       INSERT INTO archives VALUES ('a', 'pending', 1, '2026-01-01', NULL, NULL), ('b', 'pending', 1, 5, 1, 'soon'),
         ('c', 'pending', 1, 9e18, NULL, NULL), ('d', 'pending', 1, -9e18, NULL, NULL), ('e', 'pending', 1, 5, NULL, NULL)`,
      { time: 'ms', fields },
    )
    expect(await sweep()).toMatchObject({ stuck: 4, requeued: 1, documentErrors: 3 })
  })

  it('archives into a table without a key, with its columns in another order, and names a column that is missing', async () => {
    const { db, source, shape } = await opened(`
      CREATE TABLE archives (id PRIMARY KEY, status, attemptCount, lastAttemptTime, path);
      CREATE TABLE graveyard (path, lastAttemptTime, attemptCount, status, id, note);
      CREATE TABLE narrow (${TABLE});
      INSERT INTO archives VALUES ('a', 'failed_max_retries', 3, NULL, '/a')`)
    const document = await source.find(shape, 'a')
    if (document === undefined) throw new Error('a is missing')
    await source.copy(shape, [document], 'graveyard')
    await source.copy(shape, [document], 'graveyard')
    expect(db.prepare('SELECT id, path FROM graveyard').all()).toEqual([{ id: 'a', path: '/a' }])
    await expect(source.copy(shape, [document], 'narrow')).rejects.toMatchObject({ code: 'no_field' })
    await expect(source.copy(shape, [document], 'nowhere')).rejects.toMatchObject({ code: 'no_collection' })
  })

  it('goes on with the others if the database refuses to update a document', async () => {
    const { db, sweep } = await opened(`
      CREATE TABLE archives (id PRIMARY KEY, status CHECK (id <> 'unmarkable' OR status = 'pending'),
        attemptCount CHECK (id <> 'poison' OR attemptCount = 1), lastAttemptTime);
      INSERT INTO archives VALUES ('poison', 'pending', 1, '2026-01-01'), ('a', 'pending', 1, '2026-01-02'),
        ('unmarkable', 'pending', 3, '2026-01-03'), ('over', 'pending', 3, '2026-01-04')`)
    expect(await sweep()).toMatchObject({
      requeued: 1,
      exhausted: 1,
      missed: 0,
      documentErrors: 2,
      documentError: { code: 'SQLITE_CONSTRAINT_CHECK' },
    })
    expect(db.prepare('SELECT id, attemptCount FROM archives WHERE attemptCount < 3 ORDER BY id').raw().all()).toEqual([
      ['a', 2],
      ['poison', 1],
    ])
  })
})
