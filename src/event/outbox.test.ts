import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { checkInvariants } from '../../test/conformance/invariants.js'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { MemoryBus, type NewMessage, PublishUnconfirmedError, textOf } from '../bus/index.js'
import type { StoreContract } from '../store/internal.js'
import { openPostgres } from '../store/postgres/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import { Outbox, type Relay } from './index.js'
import type { OutboxEvent, RelayOptions } from './internal.js'

/** An outbox beside a table of the application's own. */
interface Scene {
  readonly store: StoreContract
  /** Adds a row and events in one transaction; with a row that is there already, it fails at the end. */
  place(order: number, ...events: OutboxEvent[]): Promise<void>
  orders(): Promise<number>
  relay(options?: RelayOptions): Relay
}

let folder: string
let pool: pg.Pool
let bus: MemoryBus
let published: NewMessage[]
/** Replaces or extends a publish. */
let fault: (message: NewMessage) => Promise<void> | void
let cleanups: (() => unknown)[]
let count = 0

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-outbox-'))
  pool = new pg.Pool({ connectionString: await freshDatabase() })
}, 120_000)
afterAll(async () => {
  await pool.end()
  rmSync(folder, { recursive: true })
})
beforeEach(async () => {
  bus = new MemoryBus({ maxBytes: 1000 })
  await bus.declare({ billing: 'order.placed' })
  published = []
  fault = () => {}
  cleanups = []
})
afterEach(async () => {
  for (const clean of cleanups.reverse()) await clean()
})

/** The memory bus, with faults. */
const faultyBus = {
  async publish(message: NewMessage) {
    await fault(message)
    await bus.publish(message)
    published.push(message)
  },
}

const FAST: RelayOptions = { policy: { backoff: { base: '5ms', max: '20ms' } } }

function relayOf(outbox: { relay: Outbox<never, unknown>['relay'] }, options: RelayOptions = {}): Relay {
  const relay = outbox.relay(faultyBus, { ...FAST, ...options })
  cleanups.push(() => relay.stop())
  return relay
}

async function onSqlite(): Promise<Scene> {
  const path = join(folder, `${++count}.db`)
  const store = await openSqlite(path)
  const db = new Database(path)
  db.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY)')
  cleanups.push(
    () => store.close(),
    () => db.close(),
    () => checkInvariants(store),
  )
  const outbox = new Outbox(store)
  const place = db.transaction((order: number, events: OutboxEvent[]) => {
    for (const event of events) outbox.publish(db, event)
    db.prepare('INSERT INTO orders (id) VALUES (?)').run(order)
  })
  return {
    store,
    place: async (order, ...events) => place.immediate(order, events),
    orders: async () => Number(db.prepare('SELECT count(*) FROM orders').pluck().get()),
    relay: options => relayOf(outbox, options),
  }
}

async function onPostgres(): Promise<Scene> {
  const schema = `outbox_${++count}`
  const store = await openPostgres(pool, { schema })
  await pool.query(`CREATE TABLE ${schema}_orders (id int PRIMARY KEY)`)
  cleanups.push(
    () => store.close(),
    () => checkInvariants(store),
  )
  const outbox = new Outbox(store)
  return {
    store,
    async place(order, ...events) {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        for (const event of events) await outbox.publish(client, event)
        await client.query(`INSERT INTO ${schema}_orders VALUES ($1)`, [order])
        await client.query('COMMIT')
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      } finally {
        client.release()
      }
    },
    orders: async () => Number((await pool.query(`SELECT count(*) FROM ${schema}_orders`)).rows[0].count),
    relay: options => relayOf(outbox, options),
  }
}

const event = (n: number, more: Partial<OutboxEvent> = {}): OutboxEvent => ({
  type: 'order.placed',
  body: JSON.stringify({ order: n }),
  ...more,
})
const bodies = () => published.map(({ body }) => JSON.parse(String(body)).order as number)
const idle = async ({ store }: Scene) => {
  const { waiting, running } = await store.count({})
  return waiting + running === 0
}

describe.each([
  ['SQLite', onSqlite],
  ['PostgreSQL', onPostgres],
])('an event in an outbox on %s', { timeout: 30_000 }, (_, open) => {
  it('is published once its transaction is committed, as it was given', async () => {
    const scene = await open()
    await scene.relay().start()
    await scene.place(1, event(1, { id: 'e1', headers: { trace: 't1' } }), event(2))
    await expect.poll(() => published.length).toBe(2)
    await expect.poll(() => idle(scene)).toBe(true)
    expect(published.find(({ id }) => id === 'e1')).toMatchObject({ headers: { trace: 't1' }, body: '{"order":1}' })
    const other = published.find(({ id }) => id !== 'e1')
    expect(await scene.store.get(String(other?.id))).toMatchObject({ kind: 'outbox', status: 'succeeded' })
  })

  it('is not there if its transaction was rolled back', async () => {
    const scene = await open()
    await scene.place(1, event(1))
    await expect(scene.place(1, event(2))).rejects.toThrow()
    await scene.relay().start()
    await expect.poll(() => idle(scene)).toBe(true)
    expect(bodies()).toEqual([1])
    expect(await scene.orders()).toBe(1)
  })

  it('that cannot be published holds those with its key, and no others, until it is through', async () => {
    let isDown = true
    fault = ({ body }) => {
      if (isDown && body === '{"order":1}') throw new Error('down')
    }
    const scene = await open()
    await scene.place(1, event(1, { key: 'a' }), event(2, { key: 'a' }), event(3, { key: 'a' }), event(9, { key: 'b' }))
    await scene.relay().start()
    await expect
      .poll(async () => (await scene.store.list({ errorCode: 'unknown' }, { limit: 9 })).items[0]?.attempts ?? 0)
      .toBeGreaterThan(3)
    expect(bodies()).toEqual([9])
    isDown = false
    await expect.poll(bodies).toEqual([9, 1, 2, 3])
  })

  it('with a unique key stands in for one that is not published yet, at the end of its lane', async () => {
    const unique = { key: 'price-7', while: 'unfinished', conflict: 'replace' } as const
    const scene = await open()
    await scene.place(1, event(1, { key: 'a', unique }), event(2, { key: 'a' }), event(3, { key: 'b', unique }))
    await scene.place(2, event(4, { key: 'a', unique }))
    await expect(scene.place(2, event(5, { key: 'a', unique }))).rejects.toThrow()
    await scene.relay().start()
    await expect.poll(() => idle(scene)).toBe(true)
    expect(bodies()).toEqual([2, 4])
    expect(await scene.store.count({})).toMatchObject({ succeeded: 2, cancelled: 2 })
    await scene.place(3, event(6, { key: 'a', unique }))
    await expect.poll(bodies).toEqual([2, 4, 6])
  })

  it('with a unique key is left out while another one waits, and waits for one that is being published', async () => {
    const once = { key: 'stale', while: 'unfinished', conflict: 'keep' } as const
    const latest = { key: 'price-7', while: 'unfinished', conflict: 'after' } as const
    const scene = await open()
    await scene.place(1, event(1, { unique: once }), event(2, { unique: once }), event(3, { key: 'a', unique: latest }))
    let letGo = () => {}
    const held = new Promise<void>(resolve => (letGo = resolve))
    let isPublishing = false
    fault = ({ body }) => {
      if (body !== '{"order":3}') return
      isPublishing = true
      return held
    }
    await scene.relay().start()
    await expect.poll(() => isPublishing).toBe(true)
    await scene.place(2, event(4, { key: 'a', unique: latest }))
    await scene.place(3, event(5, { key: 'a', unique: latest }))
    letGo()
    await expect.poll(() => idle(scene)).toBe(true)
    expect(bodies().filter(n => n < 3)).toEqual([1])
    expect(bodies().filter(n => n >= 3)).toEqual([3, 5])
  })

  it('cannot be postponed', async () => {
    const unique = { key: 'a', while: 'waiting', conflict: 'postpone', maxWait: '1s' } as const
    const scene = await open()
    await expect(scene.place(1, event(1, { unique }))).rejects.toThrow("'unique.conflict' cannot be 'postpone'")
    expect(await scene.orders()).toBe(0)
  })

  it('that has no key holds nothing up', async () => {
    fault = ({ body }) => {
      if (body === '{"order":1}') throw new Error('down')
    }
    const scene = await open()
    await scene.place(1, event(1), event(2), event(3))
    await scene.relay().start()
    await expect.poll(() => bodies().sort()).toEqual([2, 3])
    expect(await scene.store.lanes({ category: '' })).toMatchObject([{ limits: {} }])
  })

  it('that can never be published is a dead letter, and lets those after it go on', async () => {
    const scene = await open()
    const tooLarge = JSON.stringify({ order: 2, text: 'x'.repeat(2000) })
    await scene.place(
      1,
      event(1, { key: 'a' }),
      event(2, { key: 'a', body: tooLarge }),
      event(3, { key: 'a', type: 'no type' }),
      event(4, { key: 'a' }),
    )
    await scene.relay().start()
    await expect.poll(bodies).toEqual([1, 4])
    await expect.poll(() => idle(scene)).toBe(true)
    const { items } = await scene.store.list({ status: 'dead' }, { limit: 9 })
    expect(items.map(({ errorCode, reason }) => `${reason} ${errorCode}`).sort()).toEqual([
      'final_error invalid_option',
      'final_error message_too_large',
    ])
  })

  it('is given up only if the relay’s policy says so', async () => {
    fault = ({ body }) => {
      if (body === '{"order":1}') throw new Error('down')
    }
    const scene = await open()
    await scene.place(1, event(1, { key: 'a' }), event(2, { key: 'a' }))
    await scene.relay({ policy: { attempts: 3, backoff: { base: '5ms' } } }).start()
    await expect.poll(bodies).toEqual([2])
    await expect
      .poll(async () => (await scene.store.list({ status: 'dead' }, { limit: 9 })).items)
      .toMatchObject([{ attempts: 3, reason: 'attempts_exhausted' }])
  })

  it('is published again, under the same id, after a publish that nobody confirmed', async () => {
    const seen: string[] = []
    fault = async message => {
      if (seen.push(message.id) > 1) return
      await bus.publish(message)
      throw new PublishUnconfirmedError(message.id, 'the bus')
    }
    const scene = await open()
    await scene.place(1, event(1, { key: 'a' }))
    await scene.relay().start()
    await expect.poll(() => idle(scene)).toBe(true)
    expect(seen).toHaveLength(2)
    expect(new Set(seen).size).toBe(1)
    const received: string[] = []
    const consumer = await bus.consume('billing', delivery => {
      received.push(`${delivery.id} ${textOf(delivery)}`)
      delivery.ack()
    })
    await expect.poll(() => received).toEqual([1, 2].map(() => `${seen[0]} {"order":1}`))
    await consumer.stop()
  })

  it('is none the worse for a bus that was closed too early', async () => {
    const scene = await open()
    await bus.close()
    await scene.place(1, event(1, { key: 'a' }))
    await scene.relay().start()
    await expect
      .poll(async () => (await scene.store.list({ errorCode: 'bus_closed' }, { limit: 1 })).items)
      .toMatchObject([{ status: 'waiting' }])
  })
})
