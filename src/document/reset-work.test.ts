import Database from 'better-sqlite3'
import { beforeEach, expect, it, vi } from 'vitest'
import { MemoryBus } from '../bus/index.js'
import { driveOperation } from '../engine/internal.js'

import { MemoryStore, type OperationRecord } from '../store/internal.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { wrapped } from '../testing/source-conformance/harness.js'
import { collectionOf } from './collection.js'
import { type DocumentSource, openSqliteSource, sweeper } from './index.js'
import { failedSet, resetTarget } from './internal.js'

let clock: FakeClock
let db: Database.Database
let source: DocumentSource
let store: MemoryStore
beforeEach(async () => {
  clock = fakeClock(Date.UTC(2026, 0, 10))
  db = new Database(':memory:')
  db.exec(`CREATE TABLE chunks (id TEXT PRIMARY KEY, status TEXT, attempts INTEGER CHECK (attempts <> 0 OR id <> 'stuck'),
    last INTEGER, generation INTEGER, retry_at INTEGER, dispatches INTEGER, error TEXT)`)
  source = await openSqliteSource(db, { clock })
  store = new MemoryStore({ clock })
})

const chunks = collectionOf({
  name: 'chunks',
  time: 'ms',
  event: { type: 'chunks.prepared', data: ({ id }) => ({ chunk_ids: [id] }) },
  fields: {
    attemptCount: 'attempts',
    lastAttemptTime: 'last',
    generation: 'generation',
    retryAt: 'retry_at',
    dispatches: 'dispatches',
    lastError: 'error',
  },
})

/** Documents that have failed, `c0` first. */
function fail(count: number, error: string, prefix = 'c'): void {
  const insert = db.prepare(`INSERT INTO chunks VALUES (?, 'failed_max_retries', 3, ?, 7, NULL, 0, ?)`)
  for (let n = 0; n < count; n++) insert.run(`${prefix}${n}`, n, error)
}
const row = (id: string) => db.prepare('SELECT * FROM chunks WHERE id = ?').get(id)
const pending = () => db.prepare(`SELECT count(*) FROM chunks WHERE status = 'pending'`).pluck().get()

async function create(error?: string, settings: OperationRecord['settings'] = {}): Promise<string> {
  const set = await failedSet(source, chunks, error === undefined ? {} : { error })
  return (await store.operations.create({ act: 'reset', set, by: { who: 'ann' }, settings })).id
}

function drive(id: string, { signal = new AbortController().signal, target = resetTarget(source, [chunks]) } = {}) {
  return driveOperation(store, id, { driver: 'd', signal, clock, outside: target })
}

it('resets failed documents by their error, at a rate and up to a limit', async () => {
  fail(6, 'HTTP 502')
  fail(2, 'corrupt', 'x')
  const id = await create('502', { perSecond: 2, limit: 5 })
  const driving = drive(id)
  await clock.advance('1s')
  expect(pending()).toBe(3)
  await clock.advance('5s')
  await driving
  expect(await store.operations.get(id)).toMatchObject({ status: 'done', moved: 5, set: { count: 8 } })
  // A reset keeps the generation: an event of an earlier dispatch must not fit again.
  expect(row('c0')).toMatchObject({ status: 'pending', attempts: 0, last: null, generation: 7 })
  expect(row('c5')).toMatchObject({ status: 'failed_max_retries' })
})

it('refuses to tell documents by an error that their collection does not keep', async () => {
  const event = { type: 'chunks.prepared', data: () => ({}) }
  const mute = collectionOf({ name: 'chunks', event, fields: { attemptCount: 'attempts', lastAttemptTime: 'last' } })
  await expect(failedSet(source, mute, { error: '502' })).rejects.toThrow("'chunks' has no field for the last error.")
})

it('counts documents that are not in the set, that others changed, and that the database refused', async () => {
  fail(3, 'HTTP 502')
  fail(2, 'corrupt', 'x')
  db.prepare(`INSERT INTO chunks VALUES ('stuck', 'failed_max_retries', 3, 1, 0, NULL, 0, 'HTTP 502')`).run()
  const id = await create('502')
  await clock.advance('1s')
  const late = `INSERT INTO chunks VALUES ('late', 'failed_max_retries', 3, ?, 0, NULL, 0, 'HTTP 502')`
  db.prepare(late).run(clock.now())
  const slow = wrapped(source, {
    change: async (...args) => {
      db.exec(`UPDATE chunks SET attempts = 4 WHERE id = 'c1'`)
      return source.change(...args)
    },
  })
  const refused: string[] = []
  await drive(id, { target: resetTarget(slow, [chunks], ({ id }) => void refused.push(id)) })
  expect(refused).toEqual(['stuck'])
  expect(await store.operations.get(id)).toMatchObject({
    status: 'done',
    moved: 2,
    progress: { refused: { already_back: 1, database_refused: 1 }, unmatched: 3, isRead: true },
  })
  expect(row('late')).toMatchObject({ status: 'failed_max_retries' })
})

it('goes on where a driver was stopped, and leaves what has failed again alone', async () => {
  fail(1200, 'HTTP 502')
  const id = await create()
  const stop = new AbortController()
  const first = driveOperation(store, id, {
    driver: 'first',
    signal: stop.signal,
    clock,
    outside: resetTarget(source, [chunks]),
    onStep: () => stop.abort(),
  })
  await first
  expect(await store.operations.get(id)).toMatchObject({ status: 'running', moved: 500, driver: undefined })
  await clock.advance('1m')
  db.prepare(`UPDATE chunks SET status = 'failed_max_retries', last = ? WHERE id = 'c0'`).run(clock.now())
  await drive(id)
  expect(await store.operations.get(id)).toMatchObject({ status: 'done', moved: 1200, progress: { unmatched: 1 } })
  expect(pending()).toBe(1199)
})

it('is left alone by whoever cannot reach its documents', async () => {
  fail(1, 'HTTP 502')
  const id = await create()
  const elsewhere = resetTarget(wrapped(source, { address: 'sqlite:/other.db' }), [chunks])
  expect(await drive(id, { target: elsewhere })).toBe(false)
  expect(await drive(id, { target: resetTarget(source, []) })).toBe(false)
  expect(await store.operations.get(id)).toMatchObject({ status: 'running', moved: 0, driver: undefined })
})

it('is carried out by a sweeper with the same store and source, when nobody else does', async () => {
  fail(3, 'HTTP 502')
  const id = await create()
  const bus = new MemoryBus()
  const event = { type: 'chunks.prepared', data: ({ id }: { readonly id: string }) => ({ chunk_ids: [id] }) }
  await bus.declare({ embedding: event.type })
  const fields = { attemptCount: 'attempts', lastAttemptTime: 'last', lastError: 'error' }
  const collections = [{ name: 'chunks', time: 'ms', event, fields }] as const
  const sweeps = sweeper({ source, bus, store, collections, clock })
  sweeps.start()
  await vi.waitFor(async () => {
    await clock.advance('5s')
    expect(await store.operations.get(id)).toMatchObject({ status: 'done', moved: 3 })
  })
  await sweeps.stop()
})
