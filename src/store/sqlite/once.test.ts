import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { IdempotencyGuard, IdempotencyInProgressError, IdempotencyMismatchError } from '../../idempotency/index.js'
import { StaleFenceError, StoreForeignError } from '../contract/errors.js'
import { openSqlite, type SqliteStore } from './internal.js'

let folder: string
let path: string
let store: SqliteStore
let other: SqliteStore

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  path = join(folder, 'redrive.db')
  store = await openSqlite(path)
  other = await openSqlite(path)
  await store.once('table', db => void db.exec('CREATE TABLE invoice (id INTEGER PRIMARY KEY)'))
})
afterEach(async () => {
  await store.close()
  await other.close()
  rmSync(folder, { recursive: true })
})

const write = (db: Database.Database) => Number(db.prepare('INSERT INTO invoice DEFAULT VALUES').run().lastInsertRowid)
const invoices = () => store.once(crypto.randomUUID(), db => db.prepare('SELECT count(*) FROM invoice').pluck().get())

describe('once', () => {
  it('runs a function one time per key, whoever asks, and gives all of them its result', async () => {
    const results = await Promise.all([store, other, store, other].map(each => each.once('k', write)))
    expect(results).toEqual([1, 1, 1, 1])
    expect(await invoices()).toBe(1)
  })

  it('leaves nothing behind when the function throws, and the key free', async () => {
    const failing = store.once('k', db => {
      write(db)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await invoices()).toBe(0)
    expect(await store.once('k', write)).toBe(1)
  })

  it('refuses a function that leaves a query open, and the store goes on once that is closed', async () => {
    let rows: IterableIterator<unknown> | undefined
    const failing = store.once('k', db => {
      write(db)
      rows = db.prepare('SELECT 1 UNION SELECT 2').iterate()
      return rows.next().value
    })
    await expect(failing).rejects.toThrow(/busy executing a query/)
    await expect(store.enqueue([{ kind: 'k', payload: '{}' }])).rejects.toThrow(/busy executing a query/)
    rows?.return?.()
    expect(await store.enqueue([{ kind: 'k', payload: '{}' }])).toMatchObject([{ isNew: true, outcome: 'created' }])
    expect(await invoices()).toBe(0)
  })

  it('refuses a function that is asynchronous, and undoes what it wrote', async () => {
    await expect(store.once('k', async db => write(db))).rejects.toThrow(/asynchronous/)
    expect(await invoices()).toBe(0)
  })

  it.each([undefined, null, false, 0, '', { a: [1] }])('remembers a result of %j', async result => {
    const fn = vi.fn(() => result)
    expect(await store.once('k', fn)).toEqual(result)
    expect(await other.once('k', fn)).toEqual(result)
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('refuses the same key with other parameters', async () => {
    await store.once('k', write, { params: { id: 1 } })
    await expect(store.once('k', write, { params: { id: 2 } })).rejects.toThrow(IdempotencyMismatchError)
    expect(await store.once('k', write, { params: { id: 1 } })).toBe(1)
  })

  it('shares its keys with an idempotency guard', async () => {
    const guard = new IdempotencyGuard({ store: store.idempotency })
    await store.once('k', write, { params: [1] })
    expect(await guard.run('k', () => 'again', { params: [1] })).toBe(1)
    await guard.run('l', () => 'guarded')
    expect(await store.once('l', write)).toBe('guarded')
    let release = () => {}
    const running = guard.run('m', () => new Promise<void>(resolve => (release = resolve)))
    await vi.waitFor(async () => expect(store.once('m', write)).rejects.toThrow(IdempotencyInProgressError))
    release()
    await running
    guard.close()
  })

  it('does not run for a task that is somebody else’s by now', async () => {
    const [{ id } = { id: '' }] = await store.enqueue([{ kind: 'k', payload: '{}' }])
    const request = { leaseMs: 1000, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true }
    const first = (await store.claim({ ...request, worker: 'zombie' })).tasks[0]
    await store.leave('zombie')
    const second = (await other.claim({ ...request, worker: 'live' })).tasks[0]
    const fence = (token = '') => ({ fence: { id, token } })
    await expect(store.once('k', write, fence(first?.token))).rejects.toThrow(StaleFenceError)
    expect(await other.once('k', write, fence(second?.token))).toBe(1)
    expect(await store.once('k', write, fence(first?.token)), 'its result is no secret').toBe(1)
    expect(await invoices()).toBe(1)
  })
})

describe('enqueueing in a transaction of the caller’s own', () => {
  const task = { id: 'mine', kind: 'k', key: 'tenant', payload: '{}' }
  let db: Database.Database
  beforeEach(() => {
    db = new Database(path)
  })
  afterEach(() => void db.close())

  it('commits the task with the caller’s rows', async () => {
    db.transaction(() => {
      write(db)
      expect(store.enqueueIn(db, [task])).toEqual([{ id: 'mine', isNew: true, outcome: 'created' }])
    }).immediate()
    expect(await invoices()).toBe(1)
    expect(await store.get('mine')).toMatchObject({ status: 'waiting', key: 'tenant' })
    expect(await store.count({})).toMatchObject({ waiting: 1 })
  })

  it('forgets the task, and its lane, when the caller rolls back', async () => {
    const failing = db.transaction(() => {
      store.enqueueIn(db, [task])
      throw new Error('no')
    })
    expect(() => failing.immediate()).toThrow('no')
    expect(await store.get('mine')).toBeUndefined()
    expect(await store.lanes()).toEqual([])
    expect(await store.enqueue([task])).toEqual([{ id: 'mine', isNew: true, outcome: 'created' }])
  })

  it('wakes who watches, in every process that does', async () => {
    const calls = [vi.fn(), vi.fn()]
    const stops = [store.watch(calls[0] ?? (() => {})), other.watch(calls[1] ?? (() => {}))]
    store.enqueueIn(db, [task])
    await vi.waitFor(
      () => {
        for (const called of calls) expect(called).toHaveBeenCalled()
      },
      { timeout: 10_000 },
    )
    for (const stop of stops) stop()
  })

  it('refuses a connection to something else', () => {
    const foreign = new Database(':memory:')
    expect(() => store.enqueueIn(foreign, [task])).toThrow(StoreForeignError)
    foreign.close()
  })
})
