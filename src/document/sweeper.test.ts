import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { BusUnavailableError, MemoryBus, PublishUnconfirmedError, textOf } from '../bus/index.js'
import { MemoryStore } from '../store/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import {
  type CollectionOptions,
  type DocumentSource,
  documentService,
  expect as expecting,
  openSqliteSource,
  type SweeperOptions,
  sweeper,
} from './index.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR

let clock: FakeClock
let db: Database.Database
let source: DocumentSource
let bus: MemoryBus
let events: WorkEvent[]
beforeEach(async () => {
  clock = fakeClock(Date.UTC(2026, 0, 10))
  db = new Database(':memory:')
  for (const table of ['archives', 'messages', 'graveyard']) {
    db.exec(`CREATE TABLE ${table} (id TEXT PRIMARY KEY, status TEXT, attempt_count INTEGER, last_attempt_time INTEGER,
      generation INTEGER, retry_at INTEGER, dispatches INTEGER, created_at INTEGER, last_error TEXT)`)
  }
  db.exec('CREATE TABLE embeddings (id INTEGER PRIMARY KEY, message_id TEXT)')
  source = await openSqliteSource(db, { clock })
  bus = new MemoryBus()
  await bus.declare({ parsing: 'archive.ingested', chunking: 'json.parsed' })
  events = []
})

const fields = { attemptCount: 'attempt_count', lastAttemptTime: 'last_attempt_time', lastError: 'last_error' }
const fenced = { ...fields, generation: 'generation', retryAt: 'retry_at', dispatches: 'dispatches' }
const archives: CollectionOptions = {
  name: 'archives',
  time: 'ms',
  fields,
  event: { type: 'archive.ingested', name: 'ArchiveIngested', data: ({ id }) => ({ archive_id: id }) },
}
const messages: CollectionOptions = {
  ...archives,
  name: 'messages',
  event: { type: 'json.parsed', data: ({ id }) => ({ id }) },
}

interface Row {
  readonly status?: string
  readonly attempt_count?: number
  readonly last_attempt_time?: number
  readonly created_at?: number
  readonly last_error?: string
}
function insert(id: string, row: Row = {}, table = 'archives'): void {
  const given = { status: 'pending', ...row, id }
  const names = Object.keys(given)
  db.prepare(`INSERT INTO ${table} (${names}) VALUES (${names.map(name => `@${name}`)})`).run(given)
}
const row = (id: string, table = 'archives') => db.prepare(`SELECT * FROM ${table} WHERE id = ?`).get(id)
const sweeps = (options: Partial<SweeperOptions> = {}) =>
  sweeper({ source, bus, collections: [archives], clock, sink: event => void events.push(event), ...options })

/** Takes the events that wait in a queue. */
async function taken(queue = 'parsing', type = 'archive.ingested') {
  const [status] = await bus.status({ [queue]: type })
  const found: { body: Record<string, unknown>; headers: Readonly<Record<string, string>> }[] = []
  const consumer = await bus.consume(queue, delivery => {
    found.push({ body: JSON.parse(textOf(delivery)), headers: delivery.headers })
    delivery.ack()
  })
  while (found.length < (status?.messages ?? 0)) await new Promise(resolve => setImmediate(resolve))
  await consumer.stop()
  return found
}

describe('a sweep', () => {
  it('counts the attempt and stamps it into the event', async () => {
    insert('a1')
    const { collections, failure } = await sweeps().sweep()
    expect(failure).toBeUndefined()
    expect(collections).toMatchObject([{ collection: 'archives', stuck: 1, requeued: 1, failed: 0 }])
    expect(row('a1')).toMatchObject({ status: 'pending', attempt_count: 1, last_attempt_time: clock.now() })
    const [event] = await taken()
    expect(event?.body).toEqual({
      event_type: 'ArchiveIngested',
      event_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      timestamp: '2026-01-10T00:00:00.000Z',
      version: '1.0',
      data: { archive_id: 'a1' },
    })
    expect(event?.headers).toMatchObject({ 'document-id': 'a1', 'document-attempt': '1' })
  })

  it('requeues a document until its attempts are used up, then marks it, and finds nothing more', async () => {
    insert('a1', { last_error: 'HTTP 502' })
    const outcomes: unknown[] = []
    for (let day = 0; day < 6; day++) {
      const { collections } = await sweeps().sweep()
      outcomes.push([collections[0]?.requeued, collections[0]?.exhausted])
      await clock.advance('25h')
    }
    expect(outcomes).toEqual([
      [1, 0],
      [1, 0],
      [1, 0],
      [0, 1],
      [0, 0],
      [0, 0],
    ])
    expect(row('a1')).toMatchObject({ status: 'failed_max_retries', attempt_count: 3 })
    expect(await taken()).toHaveLength(3)
    const gaveUp = events.find(({ type }) => type === 'gave_up')
    expect(gaveUp).toMatchObject({
      reason: 'attempts_exhausted',
      attempt: 3,
      maxAttempts: 3,
      work: { kind: 'document', id: 'archives/a1', name: 'archives' },
      failure: expect.objectContaining({ message: 'HTTP 502' }),
    })
  })

  it('leaves an attempt in flight alone, at the maximum too', async () => {
    insert('a1', { status: 'processing', attempt_count: 3, last_attempt_time: clock.now() - HOUR })
    insert('a2', { status: 'processing', attempt_count: 1, last_attempt_time: clock.now() - HOUR })
    expect((await sweeps().sweep()).collections).toMatchObject([{ stuck: 0, requeued: 0, exhausted: 0 }])
  })

  it('tells what it would do in a dry run, and does nothing', async () => {
    insert('a1')
    insert('a2', { attempt_count: 3, last_attempt_time: 0 })
    const before = [row('a1'), row('a2')]
    const down = () => Promise.reject(new BusUnavailableError('a bus'))
    const { collections, isDryRun, failure } = await sweeps({ bus: down }).sweep({ dryRun: true })
    expect({ isDryRun, failure }).toEqual({ isDryRun: true, failure: undefined })
    expect(collections).toMatchObject([{ requeued: 1, exhausted: 1 }])
    expect([row('a1'), row('a2')]).toEqual(before)
    expect(await taken()).toEqual([])
  })

  it('goes on with the other collections if one does not exist, and is a success', async () => {
    insert('m1', {}, 'messages')
    const collections = [{ ...archives, name: 'archivse' }, messages]
    const report = await sweeps({ collections }).sweep()
    expect(report.failure).toBeUndefined()
    expect(report.collections).toMatchObject([
      { collection: 'archivse', failure: { code: 'no_collection' } },
      { collection: 'messages', requeued: 1 },
    ])
  })

  it('fails as a whole if there is no source or no bus, and works again once there is', async () => {
    insert('a1')
    let isDown = true
    const open = async () => {
      if (isDown) throw new BusUnavailableError('RabbitMQ')
      return bus
    }
    const job = sweeps({ bus: open })
    expect((await job.sweep()).failure).toMatchObject({ code: 'bus_unavailable' })
    expect(row('a1')).toMatchObject({ attempt_count: null })
    expect(events.at(-1)).toMatchObject({ type: 'sweep_ended', failure: { code: 'bus_unavailable' } })
    isDown = false
    expect(await job.sweep()).toMatchObject({ failure: undefined, collections: [{ requeued: 1 }] })
  })

  it('skips a document whose fields cannot be read, and reports it', async () => {
    insert('a1', { attempt_count: -1 })
    db.exec(`UPDATE archives SET last_attempt_time = 'n/a' WHERE id = 'a1'`)
    insert('a2')
    const zero = sweeps({ stuckAfter: 0 })
    expect((await zero.sweep()).collections).toMatchObject([
      {
        documentErrors: 1,
        requeued: 1,
        documentError: { message: expect.stringContaining("'last_attempt_time' is not a time") },
      },
    ])
    const iso = { ...archives, time: 'iso' } as const
    db.exec(`UPDATE archives SET last_attempt_time = 'n/a', attempt_count = 1`)
    expect((await sweeps({ collections: [iso] }).sweep()).collections).toMatchObject([
      { stuck: 2, documentErrors: 2, requeued: 0 },
    ])
  })

  it('is repeated at every interval until it is stopped, after a failure too', async () => {
    let opened = 0
    const broken = async (): Promise<DocumentSource> => {
      opened++
      throw new Error('no database')
    }
    const job = sweeps({ source: broken, interval: '15m' })
    job.start()
    await clock.advance('31m')
    await job.stop()
    expect(opened).toBe(3)
    expect(events.filter(({ type }) => type === 'sweep_ended')).toHaveLength(3)
  })
})

/** A bus that fails as real ones do, at moments of a test's choosing. */
class FailingBus extends MemoryBus {
  failure: ((count: number) => Error | undefined) | undefined
  #count = 0
  override async publish(message: Parameters<MemoryBus['publish']>[0]): Promise<void> {
    const error = this.failure?.(++this.#count)
    if (error !== undefined) throw error
    await super.publish(message)
  }
}

describe('a broker that fails', () => {
  let failing: FailingBus
  beforeEach(async () => {
    failing = new FailingBus()
    await failing.declare({ parsing: 'archive.ingested' })
    bus = failing
  })

  it('costs one page an attempt when it is down, and ends the sweep of the collection there', async () => {
    for (const id of ['a1', 'a2', 'a3', 'a4']) insert(id, { attempt_count: 1, last_attempt_time: 5 })
    failing.failure = () => new BusUnavailableError('RabbitMQ')
    const { collections, failure } = await sweeps({ pageSize: 2 }).sweep()
    expect(failure).toBeUndefined()
    expect(collections).toMatchObject([{ requeued: 0, publishErrors: 2 }])
    const spent = { attempt_count: 2, last_attempt_time: clock.now() }
    for (const id of ['a1', 'a2']) expect(row(id)).toMatchObject(spent)
    for (const id of ['a3', 'a4']) expect(row(id)).toMatchObject({ attempt_count: 1, last_attempt_time: 5 })
    failing.failure = undefined
    expect((await sweeps({ pageSize: 2 }).sweep()).collections).toMatchObject([{ requeued: 2, publishErrors: 0 }])
    await clock.advance('25h')
    expect((await sweeps({ pageSize: 2 }).sweep()).collections).toMatchObject([{ requeued: 4 }])
    expect(row('a1')).toMatchObject({ attempt_count: 3 })
  })

  it('that refuses one event lets the next ones go on', async () => {
    for (const id of ['a1', 'a2', 'a3']) insert(id)
    failing.failure = count => (count === 2 ? new BusUnavailableError('RabbitMQ') : undefined)
    expect((await sweeps().sweep()).collections).toMatchObject([{ requeued: 2, publishErrors: 1 }])
    for (const id of ['a1', 'a2', 'a3'])
      expect(row(id)).toMatchObject({ attempt_count: 1, last_attempt_time: clock.now() })
  })

  it('that may have taken an event leaves its document the time to begin', async () => {
    insert('a1')
    failing.failure = () => new PublishUnconfirmedError('x', 'RabbitMQ')
    const collections = [{ ...archives, fields: fenced, startWithin: '1h' } as const]
    expect((await sweeps({ collections }).sweep()).collections).toMatchObject([{ requeued: 0, publishErrors: 1 }])
    expect(row('a1')).toMatchObject({ attempt_count: null, retry_at: clock.now() + 3_600_000, dispatches: 1 })
  })

  it('makes a document that counts at its beginning due at once', async () => {
    insert('a1')
    failing.failure = () => new BusUnavailableError('RabbitMQ')
    const collections = [{ ...archives, fields: fenced }]
    await sweeps({ collections }).sweep()
    expect(row('a1')).toMatchObject({ attempt_count: null, retry_at: clock.now(), dispatches: 0 })
    failing.failure = undefined
    expect((await sweeps({ collections }).sweep()).collections).toMatchObject([{ requeued: 1 }])
  })

  it('has no queue for the type: the attempt is spent all the same', async () => {
    insert('a1')
    const event = { ...archives.event, type: 'nobody.listens' }
    const { collections } = await sweeps({ collections: [{ ...archives, event }] }).sweep()
    expect(collections).toMatchObject([{ requeued: 0, publishErrors: 1, publishError: { code: 'no_queue' } }])
    expect(row('a1')).toMatchObject({ attempt_count: 1 })
  })
})

describe('a sweep that dies between update and publish', () => {
  it.each([
    ['spends the attempt; the document is found again after the threshold', archives, 1],
    ['spends nothing where attempts count at the beginning', { ...archives, fields: fenced }, null],
  ])('%s', async (_, collection, attempts) => {
    insert('a1')
    const died = new Error('killed')
    const dying = await openSqliteSource(db, { clock })
    dying.change = async (...args) => {
      await source.change(...args)
      throw died
    }
    const { collections } = await sweeps({ source: dying, collections: [collection] }).sweep()
    expect(collections[0]?.failure).toBe(died)
    expect(row('a1')).toMatchObject({ attempt_count: attempts })
    await clock.advance('23h')
    expect((await sweeps({ collections: [collection] }).sweep()).collections).toMatchObject([{ requeued: 0 }])
    await clock.advance('2h')
    expect((await sweeps({ collections: [collection] }).sweep()).collections).toMatchObject([{ requeued: 1 }])
  })
})

describe('a backlog longer than threshold and attempts together', () => {
  /** Sweeps daily for a month while no service takes an event, then starts what it was sent last. */
  async function afterABacklog(collection: CollectionOptions) {
    insert('a1')
    for (let day = 0; day < 30; day++) {
      await sweeps({ collections: [collection] }).sweep()
      await clock.advance('25h')
    }
    return taken()
  }

  it('spends all attempts of a document that never ran, where the requeue counts: the known fault', async () => {
    expect(await afterABacklog(archives)).toHaveLength(3)
    expect(row('a1')).toMatchObject({ status: 'failed_max_retries' })
  })

  it('leaves no document dead that never ran, where attempts count at the beginning', async () => {
    const collection = { ...archives, fields: { ...fields, generation: 'generation', retryAt: 'retry_at' } }
    const sent = await afterABacklog(collection)
    expect(sent).toHaveLength(30)
    const service = documentService({ source, collection })
    expect(row('a1')).toMatchObject({ status: 'pending', attempt_count: null })
    const beginnings = []
    for (const { headers } of sent) beginnings.push((await service.begin('a1', headers)).type)
    expect(beginnings).toEqual([...Array(29).fill('superseded'), 'begun'])
    expect(row('a1')).toMatchObject({ status: 'processing', attempt_count: 1 })
  })

  it('stops dispatching what never starts, after ten times, and reports it', async () => {
    const collection = { ...archives, fields: fenced }
    expect(await afterABacklog(collection)).toHaveLength(10)
    expect(row('a1')).toMatchObject({ status: 'pending', dispatches: 10 })
    expect((await sweeps({ collections: [collection] }).sweep()).collections).toMatchObject([{ unstarted: 1 }])
  })
})

describe('too many stuck documents', () => {
  beforeEach(() => {
    db.transaction(() => {
      for (let n = 0; n < 150; n++) insert(`a${n}`, { created_at: n })
      for (let n = 0; n < 450; n++) insert(`done${n}`, { status: 'processed' })
    })()
  })

  it('are sent a hundred per sweep, and reported', async () => {
    const { collections } = await sweeps().sweep()
    expect(collections).toMatchObject([{ stuck: 150, requeued: 100, tooMany: { total: 600, isHeldBack: true } }])
    expect((await sweeps().sweep()).collections).toMatchObject([{ stuck: 50, requeued: 50 }])
  })

  it('are all sent once that is confirmed, and where it is only a warning', async () => {
    expect((await sweeps().sweep({ confirm: true })).collections).toMatchObject([{ requeued: 150 }])
    db.exec('UPDATE archives SET last_attempt_time = NULL')
    const blastRadius = { isWarning: true }
    expect((await sweeps({ collections: [{ ...archives, blastRadius }] }).sweep()).collections).toMatchObject([
      { requeued: 150, tooMany: { isHeldBack: false } },
    ])
  })

  it('are not too many where that share is normal', async () => {
    const blastRadius = { share: 0.3 }
    expect((await sweeps({ collections: [{ ...archives, blastRadius }] }).sweep()).collections).toMatchObject([
      { requeued: 150 },
    ])
  })

  it('go by priority, nine of ten, and by age', async () => {
    const created = { ...fields, createdAt: 'created_at' }
    const blastRadius = { first: 20 }
    const recent = { ...archives, fields: created, priority: 'recent', blastRadius } as const
    await sweeps({ collections: [recent] }).sweep()
    const sent = (await taken()).map(({ headers }) => headers['document-id'])
    const byPriority = Array.from({ length: 18 }, (_, n) => `a${149 - n}`)
    const byAge = ['a0', 'a1']
    expect(sent.sort()).toEqual([...byPriority, ...byAge].sort())
  })
})

describe('documents whose services cannot work', () => {
  it('wait and spend nothing while they are not healthy', async () => {
    insert('a1')
    let isHealthy = false
    const collections = [{ ...archives, isHealthy: async () => isHealthy }, messages]
    expect((await sweeps({ collections }).sweep()).collections[0]).toMatchObject({
      stuck: 1,
      postponed: 'unhealthy',
      requeued: 0,
    })
    expect(row('a1')).toMatchObject({ attempt_count: null })
    isHealthy = true
    expect((await sweeps({ collections }).sweep()).collections[0]).toMatchObject({ requeued: 1 })
  })

  it('wait while their lane is paused', async () => {
    insert('a1')
    const store = new MemoryStore({ clock })
    const lane = { kind: 'parse' }
    await store.enqueue([{ kind: 'parse', payload: '{}' }])
    await store.pause(lane, { isPaused: true })
    const collections = [{ ...archives, lane }]
    expect((await sweeps({ collections, store }).sweep()).collections).toMatchObject([{ postponed: 'lane' }])
    await store.pause(lane, { isPaused: false })
    expect((await sweeps({ collections, store }).sweep()).collections).toMatchObject([{ requeued: 1 }])
    expect(() => sweeps({ collections })).toThrow(/pass the store/)
  })
})

describe('the dead letter of a failed document', () => {
  let store: MemoryStore
  beforeEach(() => {
    store = new MemoryStore({ clock })
    insert('a1', { attempt_count: 3, last_attempt_time: 5, last_error: 'HTTP 502' })
  })
  const letters = async () => (await store.list({ kind: 'document:archives', status: 'dead' }, { limit: 10 })).items

  it('holds a reference, and tells why', async () => {
    await sweeps({ store }).sweep()
    await sweeps({ store }).sweep()
    const [letter, ...more] = await letters()
    expect(more).toEqual([])
    expect(JSON.parse(letter?.payload ?? '')).toEqual({
      collection: 'archives',
      id: 'a1',
      lastAttemptAt: 5,
      attemptCount: 3,
    })
    expect(letter).toMatchObject({ reason: 'attempts_exhausted', errorMessage: expect.stringContaining('HTTP 502') })
  })

  it('resets the document when it is redriven', async () => {
    await sweeps({ store }).sweep()
    const [letter] = await letters()
    await store.redrive([letter?.id ?? ''], { who: 'ada' })
    // The sweep that resets it finds it stuck, since it was never attempted, and requeues it.
    expect((await sweeps({ store }).sweep()).collections).toMatchObject([{ requeued: 1 }])
    expect(row('a1')).toMatchObject({ status: 'pending', attempt_count: 1 })
    expect(await letters()).toEqual([])
    expect((await store.get(letter?.id ?? ''))?.status).toBe('succeeded')
  })

  it.each([
    ['was reset', `UPDATE archives SET status = 'processed'`],
    ['was deleted', 'DELETE FROM archives'],
    ['failed again since', 'UPDATE archives SET last_attempt_time = 6'],
  ])('is discarded once its document %s', async (_, statement) => {
    await sweeps({ store }).sweep()
    db.exec(statement)
    await sweeps({ store }).sweep()
    expect(await letters()).toEqual([])
  })
})

it('a store that is down makes the sweep a failure, and documents are requeued all the same', async () => {
  insert('a1')
  insert('over', { attempt_count: 3, last_attempt_time: 5 })
  const folder = mkdtempSync(join(tmpdir(), 'redrive-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const store = await openSqlite(join(folder, 'store.db'))
  await store.close()
  const { failure, collections } = await sweeps({ store }).sweep()
  expect(failure).toMatchObject({ code: 'store_closed' })
  expect(row('a1')).toMatchObject({ attempt_count: 1 })
  expect(await taken()).toHaveLength(1)
  // It is marked only once its dead letter is on record.
  expect(collections[0]?.failure).toMatchObject({ code: 'store_closed' })
  expect(row('over')).toMatchObject({ status: 'pending' })
})

describe('coverage', () => {
  const coverage = [expecting({ from: 'messages', unless: 'embeddings', reference: 'message_id', interval: '1d' })]
  const last_attempt_time = Date.UTC(2026, 0, 1)

  it('opens documents again that have no derived one, once, and keeps their attempts counted', async () => {
    insert('covered', { status: 'processed', attempt_count: 1, last_attempt_time }, 'messages')
    insert('lacking', { status: 'processed', attempt_count: 1, last_attempt_time }, 'messages')
    insert('young', { status: 'processed', attempt_count: 1, last_attempt_time: clock.now() - HOUR }, 'messages')
    insert('under-way', { status: 'processing', attempt_count: 1, last_attempt_time: clock.now() - HOUR }, 'messages')
    db.exec(`INSERT INTO embeddings (message_id) VALUES ('covered')`)
    const job = sweeps({ collections: [messages], coverage })
    const checks = () => events.filter(({ type }) => type === 'coverage_checked')
    await job.sweep()
    expect(checks()).toMatchObject([{ from: 'messages', unless: 'embeddings', missing: 1, reopened: 1 }])
    expect(row('lacking', 'messages')).toMatchObject({ status: 'pending', attempt_count: 1 })
    expect((await job.sweep()).collections).toMatchObject([{ requeued: 1 }])
    expect(checks()).toHaveLength(1)
    expect((await taken('chunking', 'json.parsed')).map(({ headers }) => headers['document-id'])).toEqual(['lacking'])
  })

  it('ends for a document that never gets its derived one', async () => {
    insert('lacking', { status: 'processed', attempt_count: 1, last_attempt_time }, 'messages')
    const job = sweeps({ collections: [messages], coverage })
    for (let day = 0; day < 20; day++) {
      await job.sweep()
      // The service says that it is done, each time.
      db.exec(
        `UPDATE messages SET status = 'processed' WHERE status = 'pending' AND last_attempt_time = ${clock.now()}`,
      )
      await clock.advance('25h')
    }
    expect(row('lacking', 'messages')).toMatchObject({ status: 'failed_max_retries' })
  })
})

it('failed documents are moved into the archive once they are old enough', async () => {
  insert('old', { status: 'failed_max_retries', attempt_count: 3, last_attempt_time: clock.now() - 31 * DAY })
  insert('young', { status: 'failed_max_retries', attempt_count: 3, last_attempt_time: clock.now() - 2 * DAY })
  const archive = { into: 'graveyard', after: '30d' } as const
  const { collections } = await sweeps({ collections: [{ ...archives, archive }] }).sweep()
  expect(collections).toMatchObject([{ archived: 1, failed: 1 }])
  expect(row('old')).toBeUndefined()
  expect(row('old', 'graveyard')).toMatchObject({ attempt_count: 3 })
  expect(row('young')).toBeDefined()
})
