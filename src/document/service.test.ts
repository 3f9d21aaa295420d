import Database from 'better-sqlite3'
import { beforeEach, describe, expect, it } from 'vitest'
import { MemoryBus } from '../bus/index.js'
import { consume } from '../event/index.js'
import { FinalError, RetryableError } from '../policy/index.js'
import { MemoryStore } from '../store/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import {
  type CollectionOptions,
  type DocumentService,
  type DocumentSource,
  documentService,
  openSqliteSource,
  sweeper,
} from './index.js'
import type { Begun } from './internal.js'

const HOUR = 3_600_000

let clock: FakeClock
let db: Database.Database
let source: DocumentSource
beforeEach(async () => {
  clock = fakeClock(Date.UTC(2026, 0, 10))
  db = new Database(':memory:')
  db.exec(`CREATE TABLE threads (id TEXT PRIMARY KEY, status TEXT, attempts INTEGER, last INTEGER, generation INTEGER,
    retry_at INTEGER, error TEXT)`)
  db.exec(`INSERT INTO threads (id, status) VALUES ('t1', 'pending')`)
  source = await openSqliteSource(db, { clock })
})

const fields = { attemptCount: 'attempts', lastAttemptTime: 'last', lastError: 'error' }
const threads: CollectionOptions = {
  name: 'threads',
  time: 'ms',
  fields,
  event: { type: 'summarization.requested', data: ({ id }) => ({ thread_id: id }) },
}
const fenced: CollectionOptions = { ...threads, fields: { ...fields, generation: 'generation', retryAt: 'retry_at' } }
const row = () => db.prepare(`SELECT * FROM threads WHERE id = 't1'`).get()

async function begun(service: DocumentService, headers = {}): Promise<Begun> {
  const attempt = await service.begin('t1', headers)
  if (attempt.type !== 'begun') throw new Error(attempt.type)
  return attempt
}

describe('a service whose attempts the requeue counts', () => {
  it('counts an event without a stamp, and not one that a sweep has counted', async () => {
    const service = documentService({ source, collection: threads })
    expect((await begun(service)).attempt).toBe(1)
    expect(row()).toMatchObject({ status: 'processing', attempts: 1, last: clock.now() })
    expect((await begun(service, { 'document-attempt': '1' })).attempt).toBe(1)
    expect(row()).toMatchObject({ attempts: 1 })
  })

  it('marks a document as done, after which nothing begins', async () => {
    const service = documentService({ source, collection: threads })
    expect(await service.complete(await begun(service))).toBe(true)
    expect(row()).toMatchObject({ status: 'processed' })
    expect(await service.begin('t1')).toEqual({ type: 'closed' })
    expect(await service.begin('t2')).toEqual({ type: 'missing' })
  })

  it('keeps the error of a failure, and leaves the rest to the sweep', async () => {
    const service = documentService({ source, collection: threads })
    await service.fail(await begun(service), new RetryableError('model overloaded'))
    expect(row()).toMatchObject({ status: 'pending', attempts: 1, error: expect.stringContaining('model overloaded') })
  })

  it('marks a document whose failure is final at once', async () => {
    const store = new MemoryStore({ clock })
    const events: WorkEvent[] = []
    const service = documentService({ source, collection: threads, store, sink: event => void events.push(event) })
    await service.fail(await begun(service), new FinalError('corrupt'))
    expect(row()).toMatchObject({ status: 'failed_max_retries', error: expect.stringContaining('corrupt') })
    expect(events).toMatchObject([{ type: 'gave_up', reason: 'final_error', attempt: 1 }])
    expect(await store.count({ kind: 'document:threads' })).toMatchObject({ dead: 1 })
  })

  it('has no lease to renew', async () => {
    const service = documentService({ source, collection: threads })
    await expect(service.renew(await begun(service))).rejects.toThrow(/has no leases/)
  })
})

describe('a service that counts attempts when they begin', () => {
  it('gets a document again when its backoff is over, until its attempts are used up', async () => {
    const service = documentService({ source, collection: fenced, policy: { attempts: 3 } })
    const bus = new MemoryBus()
    await bus.declare({ summarization: 'summarization.requested' })
    const sweeps = sweeper({ source, bus, collections: [fenced], clock })
    await service.fail(await begun(service), new RetryableError('busy'))
    expect(row()).toMatchObject({ status: 'pending', attempts: 1, retry_at: clock.now() + 300_000 })
    expect((await sweeps.sweep()).collections).toMatchObject([{ stuck: 0 }])
    await clock.advance('5m')
    expect((await sweeps.sweep()).collections).toMatchObject([{ requeued: 1 }])
    for (const generation of [2, 3]) {
      await service.fail(
        await begun(service, { 'document-generation': String(generation) }),
        new RetryableError('busy'),
      )
    }
    expect(row()).toMatchObject({ status: 'failed_max_retries', attempts: 3, retry_at: null })
    expect(await service.begin('t1')).toEqual({ type: 'closed' })
  })

  it('keeps a healthy run of seven hours from being swept, however short the threshold is', async () => {
    const collection = { ...fenced, stuckAfter: '1h' } as const
    const service = documentService({ source, collection })
    const bus = new MemoryBus()
    await bus.declare({ summarization: 'summarization.requested' })
    const sweeps = sweeper({ source, bus, collections: [collection], clock })
    const attempt = await begun(service)
    for (let hour = 0; hour < 14; hour++) {
      await clock.advance('30m')
      expect(await service.renew(attempt)).toBe(true)
      expect((await sweeps.sweep()).collections).toMatchObject([{ stuck: 0 }])
    }
    expect(await service.complete(attempt)).toBe(true)
  })

  it('lets a late event start that nobody has replaced, and acknowledges one that somebody has', async () => {
    const events: WorkEvent[] = []
    const service = documentService({ source, collection: fenced, sink: event => void events.push(event) })
    db.exec(`UPDATE threads SET generation = 3, retry_at = ${clock.now() - 9 * HOUR}`)
    expect(await service.begin('t1', { 'document-generation': '2' })).toEqual({ type: 'superseded' })
    expect(events).toMatchObject([{ type: 'superseded', work: { id: 'threads/t1', name: 'threads' } }])
    expect((await begun(service, { 'document-generation': '3' })).attempt).toBe(1)
    expect(row()).toMatchObject({ generation: 4, retry_at: clock.now() + 24 * HOUR })
  })

  it('lets an event without a stamp start unless another is under way', async () => {
    const service = documentService({ source, collection: fenced })
    await begun(service)
    expect(await service.begin('t1')).toEqual({ type: 'superseded' })
    await clock.advance('25h')
    expect((await begun(service)).attempt).toBe(2)
  })

  it('changes nothing once it has lost its document to another', async () => {
    const service = documentService({ source, collection: fenced })
    const zombie = await begun(service)
    await clock.advance('25h')
    const heir = await begun(service)
    const before = row()
    expect(await service.renew(zombie)).toBe(false)
    expect(await service.complete(zombie)).toBe(false)
    expect(await service.fail(zombie, new FinalError('too late'))).toBe(false)
    expect(row()).toEqual(before)
    expect(await service.complete(heir)).toBe(true)
  })

  it('hands an attempt back uncounted when it shuts down', async () => {
    const service = documentService({ source, collection: fenced })
    await service.release(await begun(service))
    expect(row()).toMatchObject({ status: 'pending', attempts: 0, retry_at: clock.now() })
  })

  it('takes its stamp from the headers of an event: one delivery is one attempt', async () => {
    const store = new MemoryStore({ clock })
    const bus = new MemoryBus()
    await bus.declare({ summarization: 'summarization.requested' })
    const service = documentService({ source, collection: fenced })
    const beginnings: string[] = []
    const consumer = await consume<{ data: { thread_id: string } }>(bus, 'summarization', {
      service: 'summarization',
      key: event => [event.data.thread_id],
      store,
      clock,
      policy: { attempts: 1 },
      handler: async ({ data }, { headers }) => {
        const attempt = await service.begin(data.thread_id, headers)
        beginnings.push(attempt.type)
        if (attempt.type === 'begun') await service.complete(attempt)
      },
    })
    await sweeper({ source, bus, collections: [fenced], clock }).sweep()
    await expect.poll(() => beginnings).toEqual(['begun'])
    await expect.poll(row).toMatchObject({ status: 'processed', attempts: 1, generation: 2 })
    await consumer.stop()
  })
})
