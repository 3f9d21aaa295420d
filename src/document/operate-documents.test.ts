import Database from 'better-sqlite3'
import { beforeEach, describe, expect, it } from 'vitest'
import { MemoryBus } from '../bus/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { type CollectionOptions, collectionOf } from './collection.js'
import { type DocumentSource, openSqliteSource, sweeper } from './index.js'
import { cutOf, explainDocument, findDocument, requeueDocument } from './internal.js'

const HOUR = 3_600_000

let clock: FakeClock
let db: Database.Database
let source: DocumentSource
let bus: MemoryBus
beforeEach(async () => {
  clock = fakeClock(Date.UTC(2026, 0, 10))
  db = new Database(':memory:')
  db.exec(`CREATE TABLE chunks (id TEXT PRIMARY KEY, status TEXT, attempts INTEGER, last INTEGER, generation INTEGER,
    retry_at INTEGER, dispatches INTEGER, created INTEGER, error TEXT)`)
  source = await openSqliteSource(db, { clock })
  bus = new MemoryBus()
  await bus.declare({ embedding: 'chunks.prepared' })
})

const options: CollectionOptions = {
  name: 'chunks',
  time: 'ms',
  event: { type: 'chunks.prepared', data: ({ id }) => ({ chunk_ids: [id] }) },
  fields: {
    attemptCount: 'attempts',
    lastAttemptTime: 'last',
    generation: 'generation',
    retryAt: 'retry_at',
    dispatches: 'dispatches',
    createdAt: 'created',
    lastError: 'error',
  },
}
const chunks = collectionOf(options)
const insert = (id: string, fields: Record<string, unknown>) => {
  const row = { id, status: 'pending', ...fields }
  const names = Object.keys(row)
  db.prepare(`INSERT INTO chunks (${names}) VALUES (${names.map(name => `@${name}`)})`).run(row)
}
const row = (id: string) => db.prepare('SELECT * FROM chunks WHERE id = ?').get(id)

describe('a document', () => {
  it.each([
    ['never_attempted', { created: -HOUR }, 23 * HOUR],
    ['under_way', { attempts: 1, last: -HOUR }, 23 * HOUR],
    ['under_way', { attempts: 1, last: -99 * HOUR, retry_at: HOUR, status: 'processing' }, HOUR],
    ['scheduled', { attempts: 1, last: -99 * HOUR, retry_at: HOUR }, HOUR],
    ['scheduled', { retry_at: HOUR, dispatches: 1 }, HOUR],
    ['unreadable', { attempts: -1, last: -99 * HOUR }, undefined],
    ['due', { attempts: 1, last: -25 * HOUR }, undefined],
    ['due', {}, undefined],
    ['due', { attempts: 1, last: -HOUR, retry_at: -1 }, undefined],
    ['exhausted', { attempts: 3, last: -25 * HOUR }, undefined],
    ['unstarted', { dispatches: 10, retry_at: -1 }, undefined],
    ['failed', { status: 'failed_max_retries' }, undefined],
    ['closed', { status: 'processed' }, undefined],
  ] as const)('is %s with %j', async (state, fields, nextIn) => {
    const times = ['last', 'retry_at', 'created']
    const now = clock.now()
    const at = Object.entries(fields).map(([name, value]) => [name, times.includes(name) ? now + Number(value) : value])
    insert('c1', Object.fromEntries(at))
    const document = await findDocument(source, chunks, 'c1')
    const explained = explainDocument(chunks, document, await cutOf(source, chunks))
    const nextAt = nextIn === undefined ? undefined : now + nextIn
    expect(explained).toEqual({ state, nextAt, maxAttempts: 3 })
  })

  it('in backoff says until when', async () => {
    insert('c1', { attempts: 2, last: clock.now() - 5 * 60_000 })
    const now = collectionOf(options, { stuckAfter: 0 })
    const document = await findDocument(source, now, 'c1')
    expect(explainDocument(now, document, await cutOf(source, now))).toMatchObject({
      state: 'in_backoff',
      nextAt: clock.now() + 5 * 60_000,
    })
  })
})

describe('an operator', () => {
  it('requeues a document at a chosen time', async () => {
    insert('c1', { attempts: 1, last: clock.now() })
    await requeueDocument(source, bus, chunks, 'c1', { at: clock.now() + 6 * HOUR })
    const sweep = async () => (await sweeper({ source, bus, collections: [options], clock }).sweep()).collections
    await clock.advance('5h')
    expect(await sweep()).toMatchObject([{ stuck: 0 }])
    await clock.advance('1h')
    expect(await sweep()).toMatchObject([{ requeued: 1 }])
  })

  it('requeues a document at once, which costs nothing if it cannot be published and its service counts', async () => {
    insert('c1', { attempts: 1, last: clock.now() })
    expect(await requeueDocument(source, bus, chunks, 'c1')).toMatchObject({ generation: 1, attemptCount: 1 })
    const deaf = collectionOf({ ...options, event: { ...options.event, type: 'nobody.listens' } })
    await expect(requeueDocument(source, bus, deaf, 'c1')).rejects.toMatchObject({ code: 'no_queue' })
    expect(row('c1')).toMatchObject({ attempts: 1, retry_at: clock.now() })
  })
})
