import { setImmediate as turn } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { type NetworkProxy, startProxy } from '../../../test/services/proxy.js'
import { Outbox } from '../../event/index.js'
import { StoreRolledBackError, StoreUnavailableError } from '../contract/errors.js'
import type { PostgresTransaction } from './index.js'
import { openPostgres, type PostgresStore } from './internal.js'

const TASK = { id: 'receipt-1', kind: 'send-receipt', payload: '{}' }

let admin: pg.Client
let proxy: NetworkProxy
/** Its connections go through the proxy. Nobody but the store listens to their errors. */
let store: PostgresStore
beforeEach(async () => {
  const url = await freshDatabase()
  admin = new pg.Client(url)
  await admin.connect()
  await admin.query('CREATE TABLE orders (id int PRIMARY KEY, note text)')
  proxy = await startProxy(url)
  store = await openPostgres(proxy.through(url))
})
afterEach(async () => {
  await checkInvariants(store)
  await store.close()
  await proxy.close()
  await admin.end()
})

const insert = (tx: PostgresTransaction, id: number) => tx.query('INSERT INTO orders VALUES ($1)', [id])
const orders = async () => Number((await admin.query('SELECT count(*) FROM orders')).rows[0].count)
const tasks = async () => (await store.count({})).waiting
const pidOf = async (tx: PostgresTransaction) => (await tx.query('SELECT pg_backend_pid() AS pid')).rows[0].pid
/** Everything that a transaction can do with a store. */
async function placeOrder(tx: PostgresTransaction, id: number): Promise<string> {
  await insert(tx, id)
  await store.enqueueIn(tx, [{ ...TASK, id: `receipt-${id}` }])
  await new Outbox(store).publish(tx, { type: 'order.placed', body: '{}' })
  return store.onceIn(tx, `order-${id}`, () => 'placed')
}

describe('a transaction of the store', () => {
  it('commits the caller’s rows, tasks, events and keys together, and gives back the result', async () => {
    expect(await store.transaction(tx => placeOrder(tx, 1))).toBe('placed')
    expect([await orders(), await tasks()]).toEqual([1, 2])
    expect(await store.once('order-1', () => 'again')).toBe('placed')
  })

  it('leaves nothing behind when the function throws; the error is the caller’s, and the connection is used again', async () => {
    let pid: unknown
    const failing = store.transaction(async tx => {
      pid = await pidOf(tx)
      await placeOrder(tx, 1)
      throw new RangeError('An order cannot cost less than nothing.')
    })
    await expect(failing).rejects.toThrow(RangeError)
    expect([await orders(), await tasks()]).toEqual([0, 0])
    expect(await store.transaction(pidOf)).toBe(pid)
  })

  it('completes a task together with the rows of its handler', async () => {
    await store.enqueue([TASK])
    const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: [TASK.kind] }], limit: 1, isIdle: true }
    const [fence = { id: '', token: '' }] = (await store.claim(request)).tasks
    await store.transaction(async tx => {
      await insert(tx, 1)
      await store.completeIn(tx, fence)
    })
    expect((await store.get(TASK.id))?.status).toBe('succeeded')
    const late = store.transaction(async tx => {
      await insert(tx, 2)
      await store.completeIn(tx, fence)
    })
    await expect(late).rejects.toMatchObject({ code: 'stale_fence' })
    expect(await orders()).toBe(1)
  })

  it('is not committed after a failed statement, even if the function caught the error', async () => {
    await admin.query('INSERT INTO orders VALUES (1)')
    const swallowing = store.transaction(async tx => {
      await store.enqueueIn(tx, [TASK])
      await insert(tx, 1).catch(() => {})
    })
    await expect(swallowing).rejects.toThrow(StoreRolledBackError)
    expect(await tasks()).toBe(0)
  })

  it('refuses a query that comes after its end: the connection serves others by then', async () => {
    let late: Promise<unknown> = Promise.resolve()
    let goOn = () => {}
    const isOver = new Promise<void>(resolve => {
      goOn = resolve
    })
    await store.transaction(async tx => {
      const save = async () => {
        await insert(tx, 1)
        await isOver
        await insert(tx, 2)
      }
      late = save() // the await is missing
      await insert(tx, 3)
    })
    goOn()
    await expect(late).rejects.toMatchObject({ code: 'transaction_over' })
    expect((await admin.query('SELECT id FROM orders ORDER BY id')).rows).toEqual([{ id: 1 }, { id: 3 }])
  })

  it('is done again after a conflict, as a whole', async () => {
    await admin.query('INSERT INTO orders VALUES (1), (2)')
    let calls = 0
    let begin = () => {}
    const allHaveRead = new Promise<void>(resolve => {
      begin = resolve
    })
    const note = (text: string) =>
      store.transaction(async tx => {
        await tx.query('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE')
        const { rows } = await tx.query('SELECT count(note) FROM orders')
        if (++calls === 3) begin()
        await allHaveRead
        await tx.query('UPDATE orders SET note = $1 WHERE id = 1', [`${text} after ${rows[0].count}`])
        await store.enqueueIn(tx, [{ kind: 'k', payload: '{}' }])
      })
    await Promise.all(['a', 'b', 'c'].map(note))
    expect(calls).toBeGreaterThan(3)
    expect(await tasks()).toBe(3)
  })
})

describe('a transaction whose connection is cut', () => {
  it.for([
    ['while it is idle', async () => void (await turn())],
    // The server notices when it has its answer.
    ['while it waits for an answer', async (tx: PostgresTransaction) => void (await tx.query('SELECT pg_sleep(1)'))],
  ] as const)('%s: the process lives, and nothing is half done', async ([, wait]) => {
    const failing = store.transaction(async tx => {
      await placeOrder(tx, 1)
      setTimeout(() => proxy.cut(), 50)
      await Promise.all([wait(tx), new Promise(resolve => setTimeout(resolve, 200))])
      await insert(tx, 2)
    })
    await expect(failing).rejects.toThrow()
    expect([await orders(), await tasks()]).toEqual([0, 0])
    expect(await store.transaction(tx => placeOrder(tx, 1)), 'on another connection').toBe('placed')
    expect([await orders(), await tasks()]).toEqual([1, 2])
  })

  it('before its function ends without a query: it is not taken for committed', async () => {
    const failing = store.transaction(async tx => {
      await insert(tx, 1)
      proxy.cut()
      await new Promise(resolve => setTimeout(resolve, 100))
    })
    await expect(failing).rejects.toThrow(StoreUnavailableError)
    expect(await orders()).toBe(0)
  })

  it('after the commit and before the answer: all of it is there, and asking again by key does nothing twice', async () => {
    const place = () => store.transaction(tx => store.onceIn(tx, 'order-1', async tx => void (await insert(tx, 1))))
    const cut = proxy.cutBeforeAnswer('COMMIT')
    await expect(place()).rejects.toThrow(StoreUnavailableError)
    await cut
    await place()
    expect(await orders()).toBe(1)
  })
})
