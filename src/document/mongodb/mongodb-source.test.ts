import { Long, MongoClient, ObjectId, UUID } from 'mongodb'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type MongodbServer, startMongodb, whyNoMongodb } from '../../../test/services/mongodb.js'
import { type Relay, startOneAtATime } from '../../../test/services/one-at-a-time.js'
import { MemoryBus } from '../../bus/index.js'
import { type SourceUnderTest, sourceConformance } from '../../testing/index.js'
import { collectionOf } from '../collection.js'
import { type DocumentRecord, openMongodbSource, sweeper } from '../index.js'

const problem = await whyNoMongodb()
if (problem !== undefined) process.stderr.write(`The MongoDB source is not tested: ${problem}\n`)

const database = `redrive_${crypto.randomUUID().slice(0, 8)}`
let server: MongodbServer
let relay: Relay | undefined
let url: string
let client: MongoClient

const BUILDING_MS = 600_000

describe.skipIf(problem !== undefined)('a MongoDB source', () => {
  beforeAll(async () => {
    server = await startMongodb()
    relay = server.isAtomic ? undefined : await startOneAtATime(server.url)
    url = relay?.through(server.url) ?? server.url
    client = await new MongoClient(server.url).connect()
  }, BUILDING_MS)
  afterAll(async () => {
    await client?.db(database).dropDatabase()
    await client?.close()
    await relay?.close()
    await server?.close()
  })

  const writeTime = (time: 'date' | 'iso' | 'ms' | 's', ms: number | undefined) => {
    if (ms === undefined) return undefined
    const date = new Date(ms)
    return { date, iso: date.toISOString(), ms, s: ms / 1000 }[time]
  }

  async function open(time: 'date' | 'iso' | 'ms' | 's'): Promise<SourceUnderTest> {
    const db = client.db(database)
    return {
      source: await openMongodbSource(url, { database }),
      other: await openMongodbSource(url, { database }),
      settings: { time, fields: { id: 'id' } },
      create: async () => {
        const name = `documents_${crypto.randomUUID().slice(0, 8)}`
        await db.createCollection(name)
        return name
      },
      insert: async (collection, documents) => {
        const rows = documents.map(({ lastAttemptTime, retryAt, createdAt, ...rest }) => ({
          ...rest,
          ...(lastAttemptTime !== undefined && { lastAttemptTime: writeTime(time, lastAttemptTime) }),
          ...(retryAt !== undefined && { retryAt: writeTime(time, retryAt) }),
          ...(createdAt !== undefined && { createdAt: writeTime(time, createdAt) }),
        }))
        await db.collection(collection).insertMany(rows)
      },
    }
  }

  describe.each(['date', 'iso', 'ms', 's'] as const)('with times as %s keeps the contract', time => {
    for (const { name, run } of sourceConformance(() => open(time))) it(name, { timeout: 120_000 }, run)
  })

  const event = { type: 'archive.ingested', data: () => ({}) }
  const opened = async () => {
    const source = await openMongodbSource(url, { database })
    onTestFinished(() => source.close())
    return source
  }

  it('finds a document by the text of its id, of whatever type that is', async () => {
    const id = new ObjectId()
    const uuid = new UUID()
    const ids: unknown[] = [id, 'a1', 42, 1.5, uuid, Long.fromString('9007199254740993')]
    const texts = [id.toHexString(), 'a1', '42', '1.5', uuid.toHexString(), '9007199254740993']
    await client
      .db(database)
      .collection('mixed')
      .insertMany(ids.map(_id => ({ _id, status: 'pending' }) as never))
    const source = await opened()
    const { shape } = collectionOf({ name: 'mixed', event })
    const documents: DocumentRecord[] = []
    for (const text of texts) {
      const document = await source.find(shape, text)
      expect(document?.id).toBe(text)
      if (document === undefined) continue
      expect(await source.change(shape, [{ document, to: { attemptCount: 1 } }])).toHaveLength(1)
      documents.push(document)
    }
    const walked: string[] = []
    for await (const page of source.walk(shape, { type: 'all' }, { pageSize: 1 })) walked.push(...page.map(d => d.id))
    expect(walked.sort()).toEqual([...texts].sort())

    // References may be of other types than the ids, and lists of them.
    const references = [{ of: [id, 'a1'] }, { of: '42' }, { of: uuid.toHexString() }]
    await client.db(database).collection('references').insertMany(references)
    const present = await source.present('references', 'of', documents)
    expect([...present].sort()).toEqual([id.toHexString(), 'a1', '42', uuid.toHexString()].sort())
  })

  it('reports documents whose id has no text, or is missing', async () => {
    const rows = [{ key: { a: 1 }, status: 'pending' }, { status: 'pending' }, { key: 'a', status: 'pending' }]
    await client.db(database).collection('keyed').insertMany(rows)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const collections = [{ name: 'keyed', event, fields: { id: 'key' } }]
    const report = await sweeper({ source: await opened(), bus, collections }).sweep()
    expect(report.collections).toMatchObject([{ stuck: 3, requeued: 1, documentErrors: 2 }])
  })

  it('goes on with the others if the database refuses to update a document', async () => {
    const rows = [{ status: 'pending', retry: 5 }, { status: 'pending' }, { status: 'pending', retry: {} }]
    await client.db(database).collection('strict').insertMany(rows)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const fields = { attemptCount: 'retry.count', lastAttemptTime: 'retry.last' }
    const collections = [{ name: 'strict', event, fields }]
    const report = await sweeper({ source: await opened(), bus, collections }).sweep()
    // A number has no fields.
    expect(report.collections).toMatchObject([{ requeued: 2, documentErrors: 1, missed: 0 }])
    expect(report.collections[0]?.documentError).toMatchObject({ code: 28 })
  })

  it('takes fields within fields', async () => {
    await client
      .db(database)
      .collection('nested')
      .insertMany([
        { retry: { count: 1, last: new Date(0) }, state: { now: 'pending' } },
        { retry: { count: 3, last: new Date(0) }, state: { now: 'processing' } },
        { state: { now: 'pending' } },
      ])
    const fields = { status: 'state.now', attemptCount: 'retry.count', lastAttemptTime: 'retry.last' }
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const collections = [{ name: 'nested', event, fields }]
    const report = await sweeper({ source: await opened(), bus, collections }).sweep()
    expect(report.collections).toMatchObject([{ stuck: 3, requeued: 2, exhausted: 1 }])
    const counts = await client.db(database).collection('nested').find().project({ _id: 0, 'retry.count': 1 }).toArray()
    expect(counts.map(({ retry }) => retry.count).sort()).toEqual([1, 2, 3])
  })

  it('leaves an attempt under way alone whose time is written in another zone', async () => {
    const written = (ms: number) => `${new Date(ms - 5 * 3_600_000).toISOString().slice(0, 19)}-05:00`
    const rows = [
      {
        _id: 'under way',
        status: 'processing',
        attemptCount: 1,
        lastAttemptTime: written(Date.now() - 20 * 3_600_000),
      },
      { _id: 'stuck', status: 'processing', attemptCount: 1, lastAttemptTime: written(Date.now() - 40 * 3_600_000) },
    ]
    await client
      .db(database)
      .collection('offset')
      .insertMany(rows as never[])
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const collections = [{ name: 'offset', event, time: 'iso' } as const]
    const report = await sweeper({ source: await opened(), bus, collections }).sweep()
    expect(report.collections).toMatchObject([{ requeued: 1, documentErrors: 0 }])
  })

  it('prints an index for an id of your own', async () => {
    const source = await opened()
    const { shape } = collectionOf({ name: 'archives', event, fields: { id: 'archive_id' } })
    expect(await source.indexes(shape)).toContain('db.getCollection("archives").createIndex({"archive_id":1})')
  })

  it('takes the time of an ObjectId for the creation time, if that is configured', async () => {
    const now = Date.now()
    const young = ObjectId.createFromTime(Math.floor(now / 1000) - 60)
    const old = ObjectId.createFromTime(Math.floor(now / 1000) - 2 * 86_400)
    await client
      .db(database)
      .collection('dated')
      .insertMany([
        { _id: young, status: 'pending' },
        { _id: old, status: 'pending' },
      ])
    const source = await opened()
    const { shape } = collectionOf({ name: 'dated', event, fields: { createdAt: '_id' } })
    const cut = { now, stuckBefore: now - 86_400_000 }
    const found: string[] = []
    for await (const page of source.walk(shape, { type: 'stuck', cut }, { pageSize: 5 }))
      found.push(...page.map(d => d.id))
    expect(found).toEqual([old.toHexString()])
  })

  it('reports documents whose time is of another type, which no comparison would see', async () => {
    const rows = [
      { status: 'pending', lastAttemptTime: '2026-01-01T00:00:00Z' },
      { status: 'processing', lastAttemptTime: 1_700_000_000 },
      { status: 'pending', lastAttemptTime: new Date(0), attemptCount: 1 },
    ]
    await client.db(database).collection('typed').insertMany(rows)
    const bus = new MemoryBus()
    await bus.declare({ parsing: 'archive.ingested' })
    const { collections } = await sweeper({
      source: await opened(),
      bus,
      collections: [{ name: 'typed', event }],
    }).sweep()
    expect(collections).toMatchObject([{ stuck: 3, requeued: 1, documentErrors: 2 }])
  })

  it('refuses a URL without a database, and one that is none, without repeating it', async () => {
    await expect(openMongodbSource('mongodb://localhost')).rejects.toMatchObject({ option: 'url' })
    const wrong = openMongodbSource('mongodb://user:secret:word@localhost/app')
    await expect(wrong).rejects.toMatchObject({ option: 'url', message: expect.not.stringContaining('secret') })
  })

  it('waits for a server no longer than the URL says', async () => {
    const url = 'mongodb://127.0.0.1:1/app?serverSelectionTimeoutMS=50'
    await expect(openMongodbSource(url)).rejects.toMatchObject({ name: 'MongoServerSelectionError' })
  })
})
