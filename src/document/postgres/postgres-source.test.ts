import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { MemoryBus } from '../../bus/index.js'
import { type SourceUnderTest, sourceConformance } from '../../testing/index.js'
import { type CollectionOptions, collectionOf } from '../collection.js'
import { openPostgresSource, sweeper } from '../index.js'

let url: string
let pool: pg.Pool
beforeAll(async () => {
  url = await freshDatabase()
  pool = new pg.Pool({ connectionString: url, max: 4 })
})
afterAll(() => pool.end())

const TIMES = { timestamptz: undefined, timestamp: undefined, bigint: 'ms', 'double precision': 's' } as const
let tables = 0

async function open(type: keyof typeof TIMES): Promise<SourceUnderTest> {
  const time = (ms: string) =>
    ({
      timestamptz: `to_timestamp(${ms} / 1000)`,
      timestamp: `to_timestamp(${ms} / 1000) AT TIME ZONE 'UTC'`,
      bigint: `(${ms})::bigint`,
      'double precision': `${ms} / 1000`,
    })[type]
  return {
    source: await openPostgresSource(url),
    other: await openPostgresSource(url),
    settings: { time: TIMES[type] },
    create: async () => {
      const name = `documents_${++tables}`
      await pool.query(`CREATE TABLE ${name} (id text PRIMARY KEY, status text, "attemptCount" int,
        "lastAttemptTime" ${type}, generation int, "retryAt" ${type}, dispatches int, "createdAt" ${type},
        "lastError" text, priority int)`)
      return name
    },
    insert: async (collection, documents) => {
      await pool.query(
        `INSERT INTO ${collection} (id, status, "attemptCount", "lastAttemptTime", generation, "retryAt", "createdAt", priority)
         SELECT id, status, "attemptCount", ${time('"lastAttemptTime"')}, generation, ${time('"retryAt"')},
                ${time('"createdAt"')}, priority
           FROM jsonb_to_recordset($1) AS d (id text, status text, "attemptCount" int, "lastAttemptTime" float8,
                generation int, "retryAt" float8, "createdAt" float8, priority int)`,
        [JSON.stringify(documents)],
      )
    },
  }
}

describe.each(['timestamptz', 'timestamp', 'bigint', 'double precision'] as const)(
  'a PostgreSQL source with times as %s keeps the contract',
  type => {
    for (const { name, run } of sourceConformance(() => open(type))) it(name, { timeout: 60_000 }, run)
  },
)

describe('a PostgreSQL source', () => {
  const event = { type: 'archive.ingested', data: () => ({}) }
  const archives = (name: string): CollectionOptions => ({
    name,
    event,
    fields: { id: 'archive_id', attemptCount: 'attempt_count', lastAttemptTime: 'last_attempt_time' },
  })
  const opened = async () => {
    const source = await openPostgresSource(url)
    onTestFinished(() => source.close())
    return source
  }

  it('takes ids of any type, times of any precision, and tables in any schema', async () => {
    await pool.query(`
      CREATE SCHEMA app;
      CREATE TABLE app.archives (archive_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status text,
        attempt_count smallint, last_attempt_time timestamptz);
      INSERT INTO app.archives (status, attempt_count, last_attempt_time)
      SELECT 'pending', 1, timestamptz '2026-01-01 00:00:00.123456+02' FROM generate_series(1, 5)`)
    const source = await opened()
    const { shape } = collectionOf(archives('app.archives'))
    const now = await source.now()
    for await (const page of source.walk(
      shape,
      { type: 'stuck', cut: { now, stuckBefore: now - 1000 } },
      { pageSize: 2 },
    )) {
      const changed = await source.change(
        shape,
        page.map(document => ({ document, to: { attemptCount: 2, lastAttemptAt: now } })),
      )
      expect(changed.length).toBe(page.length)
    }
    const { rows } = await pool.query('SELECT DISTINCT attempt_count FROM app.archives')
    expect(rows).toEqual([{ attempt_count: 2 }])
    expect(await source.find(shape, 'no uuid')).toBeUndefined()
    await source.createIndexes(shape)
  })

  it('does not wait for a service that holds a document in a transaction of its own', async () => {
    await pool.query(`
      CREATE TABLE held (archive_id int PRIMARY KEY, status text, attempt_count int, last_attempt_time timestamptz);
      INSERT INTO held SELECT n, 'pending', 0, NULL FROM generate_series(1, 20) n`)
    const service = await pool.connect()
    onTestFinished(() => service.release(true))
    await service.query('BEGIN')
    await service.query(`UPDATE held SET status = 'processing' WHERE archive_id <= 5`)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const sweep = () => sweeper({ source, bus, collections: [archives('held')] }).sweep()
    const source = await opened()
    expect((await sweep()).collections).toMatchObject([{ stuck: 20, requeued: 15, missed: 5 }])
    await service.query('ROLLBACK')
    expect((await sweep()).collections).toMatchObject([{ stuck: 5, requeued: 5 }])
  })

  it('names the columns that are missing', async () => {
    await pool.query('CREATE TABLE bare (archive_id int, status text)')
    const source = await opened()
    await expect(source.total(collectionOf(archives('bare')).shape)).rejects.toMatchObject({
      code: 'no_field',
      message: expect.stringContaining("'attempt_count', 'last_attempt_time'"),
    })
  })

  it('replaces an index that a failed statement left invalid', async () => {
    await pool.query(`CREATE TABLE halfway (archive_id int PRIMARY KEY, status text, attempt_count int,
      last_attempt_time timestamptz)`)
    const source = await opened()
    const { shape } = collectionOf(archives('halfway'))
    await source.createIndexes(shape)
    const isValid = 'SELECT indisvalid FROM pg_index WHERE indexrelid = $1::regclass'
    await pool.query('UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::regclass', ['halfway_redrive_open'])
    await source.createIndexes(shape)
    expect((await pool.query(isValid, ['halfway_redrive_open'])).rows).toEqual([{ indisvalid: true }])
  })
})
