import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { Outbox } from '../../event/index.js'
import { StoreClosedError } from '../contract/errors.js'
import { openSqlite, type SqliteStore } from './internal.js'

let folder: string
let store: SqliteStore
/** Sees what is committed. */
let reader: Database.Database
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  store = await openSqlite(join(folder, 'redrive.db'))
  reader = new Database(join(folder, 'redrive.db'))
  await store.transaction(db => db.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY)'))
})
afterEach(async () => {
  await checkInvariants(store)
  await store.close()
  reader.close()
  rmSync(folder, { recursive: true })
})

const orders = () => reader.prepare('SELECT count(*) FROM orders').pluck().get()
const tasks = async () => (await store.count({})).waiting
function placeOrder(db: Database.Database, id: number): number {
  const { lastInsertRowid } = db.prepare('INSERT INTO orders VALUES (?)').run(id)
  store.enqueueIn(db, [{ id: `receipt-${id}`, kind: 'send-receipt', payload: '{}' }])
  new Outbox(store).publish(db, { type: 'order.placed', body: '{}' })
  return Number(lastInsertRowid)
}

describe('a transaction of the store', () => {
  it('commits the caller’s rows, tasks and events together, and gives back the result', async () => {
    expect(await store.transaction(db => placeOrder(db, 7))).toBe(7)
    expect([orders(), await tasks()]).toEqual([1, 2])
  })

  it('leaves nothing behind when the function throws, and harms nobody who shares the commit', async () => {
    const [first, second, third] = await Promise.allSettled([
      store.transaction(db => placeOrder(db, 1)),
      store.transaction(db => {
        placeOrder(db, 2)
        throw new RangeError('An order cannot cost less than nothing.')
      }),
      store.transaction(db => placeOrder(db, 3)),
    ])
    expect([first, third]).toMatchObject([{ value: 1 }, { value: 3 }])
    expect(second).toMatchObject({ reason: expect.any(RangeError) })
    expect([orders(), await tasks()]).toEqual([2, 4])
  })

  it('calls its function once, though others that share the commit fail', async () => {
    const place = vi.fn((db: Database.Database) => placeOrder(db, 1))
    const failing = store.audit.append([Symbol('no text') as never]).catch(() => {})
    await Promise.all([failing, store.transaction(place)])
    expect(place).toHaveBeenCalledTimes(1)
    expect(orders()).toBe(1)
  })

  it('may have transactions within it', async () => {
    await store.transaction(db => {
      placeOrder(db, 1)
      const inner = db.transaction(() => {
        placeOrder(db, 2)
        throw new Error('only this')
      })
      expect(inner).toThrow('only this')
    })
    expect([orders(), await tasks()]).toEqual([1, 2])
  })

  it('does not call a function that is asynchronous, and undoes one that turns out to be', async () => {
    const declared = vi.fn()
    await expect(store.transaction(async db => declared(placeOrder(db, 1)))).rejects.toMatchObject({
      code: 'transaction_async',
    })
    expect(declared).not.toHaveBeenCalled()
    const hidden = store.transaction(db => Promise.resolve(placeOrder(db, 1)))
    await expect(hidden).rejects.toThrow(/asynchronous/)
    expect([orders(), await tasks()]).toEqual([0, 0])
  })

  it.each(['transaction', 'once'])('of %s wakes a worker of this process at once', async verb => {
    const woken: unknown[] = []
    const stop = store.watch(() => woken.push(orders()))
    const place = (db: Database.Database) => placeOrder(db, 1)
    await (verb === 'once' ? store.once('order-1', place) : store.transaction(place))
    await new Promise(resolve => setImmediate(resolve))
    stop()
    expect(woken, 'after the commit').toEqual([1])
  })

  it('is refused by a store that was closed', async () => {
    const other = await openSqlite(join(folder, 'redrive.db'))
    await other.close()
    await expect(other.transaction(() => 1)).rejects.toThrow(StoreClosedError)
  })
})
