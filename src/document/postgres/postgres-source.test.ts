import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { MemoryBus, textOf } from '../../bus/index.js'
import { type SourceUnderTest, sourceConformance } from '../../testing/index.js'
import { type CollectionOptions, collectionOf } from '../collection.js'
import { type DocumentRecord, documentService, openPostgresSource, sweeper } from '../index.js'

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

  it.each(['UTC', 'America/New_York'])(
    'takes timestamps with and without a zone, in sessions of the zone %s',
    async zone => {
      const table = `zoned_${zone.slice(0, 3).toLowerCase()}`
      await pool.query(`
      CREATE TABLE ${table} (archive_id int PRIMARY KEY, status text, attempt_count int, last_attempt_time timestamp(3),
        created_at timestamptz, retry_at timestamp, generation int);
      INSERT INTO ${table}
      SELECT n, 'pending', 1, (now() - interval '24 hours' + n * interval '1 hour') AT TIME ZONE 'UTC', NULL::timestamptz, NULL::timestamp, 0
        FROM unnest(ARRAY[-1, 1]) n
       UNION ALL
      SELECT 10 + n, 'pending', 0, NULL, now() - interval '24 hours' + n * interval '1 hour', NULL, 0 FROM unnest(ARRAY[-1, 1]) n
       UNION ALL
      SELECT 20 + n, 'pending', 0, NULL, now(), (now() + n * interval '1 hour') AT TIME ZONE 'UTC', 0 FROM unnest(ARRAY[-1, 1]) n`)
      const zoned = new pg.Pool({ connectionString: url, max: 2, options: `-c TimeZone=${zone}` })
      onTestFinished(() => zoned.end())
      const source = await openPostgresSource(zoned)
      const { fields } = archives(table)
      const tracked = { ...fields, createdAt: 'created_at', retryAt: 'retry_at', generation: 'generation' }
      const { shape } = collectionOf({ ...archives(table), fields: tracked })
      const now = await source.now()
      const documents: DocumentRecord[] = []
      const selection = { type: 'stuck', cut: { now, stuckBefore: now - 86_400_000 } } as const
      for await (const page of source.walk(shape, selection, { pageSize: 1 })) documents.push(...page)
      expect(documents.map(({ id }) => id).sort()).toEqual(['-1', '19', '9'])
      const [changed] = await source.change(shape, [
        { document: documents[0] as DocumentRecord, to: { lastAttemptAt: now, retryAt: now + 1000 } },
      ])
      const again = await source.find(shape, changed?.id ?? '')
      expect(again).toMatchObject({ lastAttemptAt: now, retryAt: now + 1000 })
    },
  )

  it('takes tables and columns whose names need quotes, and indexes of long names', async () => {
    const long = `Archives of the ${'very '.repeat(8)}large mail`
    await pool.query(`
      CREATE SCHEMA "Odd-Schema";
      CREATE TABLE "Odd-Schema"."${long}" ("Order" text PRIMARY KEY, "select" text, "the count" int, "last time" timestamptz);
      INSERT INTO "Odd-Schema"."${long}" VALUES ('a', 'pending', 0, NULL)`)
    const source = await opened()
    const collection: CollectionOptions = {
      name: `Odd-Schema.${long}`,
      event,
      fields: { id: 'Order', status: 'select', attemptCount: 'the count', lastAttemptTime: 'last time' },
    }
    const { shape } = collectionOf(collection)
    await source.createIndexes(shape)
    await source.createIndexes(shape)
    const { rows } = await pool.query('SELECT indexdef FROM pg_indexes WHERE schemaname = $1', ['Odd-Schema'])
    expect(rows.length).toBe(3)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const { collections } = await sweeper({ source, bus, collections: [collection] }).sweep()
    expect(collections).toMatchObject([{ requeued: 1 }])
  })

  it('refuses a column that holds no times, or numbers of which nobody said what they are', async () => {
    await pool.query(`
      CREATE TABLE texts (archive_id int, status text, attempt_count int, last_attempt_time text);
      CREATE TABLE numbers (archive_id int, status text, attempt_count int, last_attempt_time bigint)`)
    const source = await opened()
    for (const name of ['texts', 'numbers']) {
      await expect(source.total(collectionOf(archives(name)).shape)).rejects.toMatchObject({ option: 'time' })
    }
    expect(await source.total(collectionOf({ ...archives('numbers'), time: 's' }).shape)).toBe(0)
  })

  it('publishes JSON columns with the numbers that they hold', async () => {
    await pool.query(`
      CREATE TABLE ledgers (archive_id int PRIMARY KEY, status text, attempt_count int, last_attempt_time timestamptz,
        body jsonb, written json, parts jsonb[], whole jsonb, one jsonb, nothing jsonb);
      INSERT INTO ledgers VALUES (1, 'pending', 0, NULL, '{"id": 9007199254740993, "of": [0.10000000000000000001]}',
        '{"n": 1e2, "id":9007199254740995}', ARRAY['{"id": 9007199254740997}', NULL]::jsonb[], '9007199254740999', '1.0', 'null')`)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const scalars: unknown[] = []
    const data = ({ data: { body, written, parts, whole, one, nothing } }: DocumentRecord) => {
      scalars.push(whole, one, nothing)
      return { body, written, parts }
    }
    const collection = { ...archives('ledgers'), event: { ...event, data } }
    await sweeper({ source: await opened(), bus, collections: [collection] }).sweep()
    const sent: string[] = []
    const consumer = await bus.consume('parsing', delivery => {
      sent.push(textOf(delivery))
      delivery.ack()
    })
    await expect.poll(() => sent).toHaveLength(1)
    await consumer.stop()
    expect(sent[0]).toContain('"body":{"id":9007199254740993,"of":[0.10000000000000000001]}')
    expect(sent[0]).toContain('"written":{"n":1e2,"id":9007199254740995}')
    expect(sent[0]).toContain('"parts":[{"id":9007199254740997},null]')
    expect(scalars).toEqual(['9007199254740999', 1, null])
  })

  it('reports times that no date can hold', async () => {
    await pool.query(`
      CREATE TABLE endless (archive_id int PRIMARY KEY, status text, attempt_count int, last_attempt_time timestamptz);
      INSERT INTO endless VALUES (1, 'pending', 1, '-infinity'), (2, 'pending', 1, NULL), (3, 'pending', -1, NULL)`)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const { collections } = await sweeper({ source: await opened(), bus, collections: [archives('endless')] }).sweep()
    expect(collections).toMatchObject([{ stuck: 3, requeued: 1, documentErrors: 2 }])
    expect(collections[0]?.oldestAgeMs).toBeUndefined()
  })

  it('archives into a table with its columns in another order, identities and computed columns', async () => {
    await pool.query(`
      CREATE TABLE many (archive_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text, attempt_count int,
        last_attempt_time timestamptz, twice int GENERATED ALWAYS AS (attempt_count * 2) STORED, path text);
      CREATE TABLE buried (note text, LIKE many INCLUDING ALL)`)
    await pool.query(`INSERT INTO many (status, attempt_count, path) VALUES ('failed_max_retries', 3, '/a')`)
    const source = await opened()
    const { shape } = collectionOf(archives('many'))
    const document = await source.find(shape, '1')
    if (document === undefined) throw new Error('1 is missing')
    await Promise.all([source.copy(shape, [document], 'buried'), source.copy(shape, [document], 'buried')])
    await source.copy(shape, [document], 'buried')
    const { rows } = await pool.query('SELECT archive_id, twice, path FROM buried')
    expect(rows).toEqual([{ archive_id: 1, twice: 6, path: '/a' }])
    expect(await source.remove(shape, [document])).toHaveLength(1)
    // Another sweeper, which read the document before, must not take the copy away.
    await source.copy(shape, [document], 'buried')
    expect((await pool.query('SELECT path FROM buried')).rows).toHaveLength(1)
  })

  it('compares references by their type, not by their text', async () => {
    await pool.query(`
      CREATE TABLE uuids (archive_id text PRIMARY KEY, status text, attempt_count int, last_attempt_time timestamptz);
      CREATE TABLE derived (archive_id uuid);
      INSERT INTO uuids VALUES ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'processed', 1, NULL);
      INSERT INTO derived VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')`)
    const source = await opened()
    const document = await source.find(collectionOf(archives('uuids')).shape, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11')
    const present = await source.present('derived', 'archive_id', document === undefined ? [] : [document])
    expect([...present]).toEqual(['A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'])
  })

  it('lets a service wait for a document that a transaction holds, and throws if that takes too long', async () => {
    await pool.query(`
      CREATE TABLE locked (archive_id int PRIMARY KEY, status text, attempt_count int, last_attempt_time timestamptz, note text);
      INSERT INTO locked VALUES (1, 'pending', 0, NULL)`)
    const source = await opened()
    const service = documentService({ source, collection: archives('locked') })
    const holder = await pool.connect()
    onTestFinished(() => holder.release(true))
    const hold = async () => {
      await holder.query('BEGIN')
      await holder.query(`UPDATE locked SET note = 'mine'`)
    }
    await hold()
    const beginning = service.begin('1')
    await new Promise(resolve => setTimeout(resolve, 50))
    await holder.query('COMMIT')
    const attempt = await beginning
    expect(attempt).toMatchObject({ type: 'begun', attempt: 1 })
    await hold()
    if (attempt.type === 'begun')
      await expect(service.complete(attempt)).rejects.toMatchObject({ code: 'document_busy' })
    await holder.query('ROLLBACK')
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

  it('limits its statements on both sides: the server ends them, and is asked to end the building of an index', async () => {
    await pool.query(`CREATE TABLE stuck (archive_id int PRIMARY KEY, status text, attempt_count int,
      last_attempt_time timestamptz)`)
    const source = await openPostgresSource(url, { timeout: '20ms' })
    onTestFinished(() => source.close())
    const { shape } = collectionOf(archives('stuck'))
    await expect.poll(() => source.find(shape, '1').catch(String)).toBeUndefined()
    const holder = await pool.connect()
    onTestFinished(() => holder.release(true))
    await holder.query('BEGIN; LOCK TABLE stuck')
    await expect(source.find(shape, '1')).rejects.toMatchObject({ code: '57014' })
    await expect(source.createIndexes(shape)).rejects.toThrow('timeout')
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    await expect.poll(async () => (await holder.query(waiting)).rowCount).toBe(0)
    await holder.query('ROLLBACK')
    await expect.poll(() => source.find(shape, '1').catch(String)).toBeUndefined()
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

  it('goes on with the others if the database refuses to update a document', async () => {
    await pool.query(`
      CREATE TABLE strict (archive_id int PRIMARY KEY, status text, attempt_count int, last_attempt_time timestamptz,
        CHECK (archive_id % 7 <> 0 OR attempt_count IS NULL));
      INSERT INTO strict SELECT n, 'pending', NULL, NULL FROM generate_series(1, 30) n`)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const { collections } = await sweeper({ source: await opened(), bus, collections: [archives('strict')] }).sweep()
    expect(collections).toMatchObject([
      { stuck: 30, requeued: 26, documentErrors: 4, missed: 0, documentError: { code: '23514' } },
    ])
    const { rows } = await pool.query('SELECT archive_id FROM strict WHERE attempt_count IS NULL ORDER BY archive_id')
    expect(rows.map(row => row.archive_id)).toEqual([7, 14, 21, 28])
  })
})
