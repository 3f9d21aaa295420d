import Database from 'better-sqlite3'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { MemoryRecords } from '../memory/record-port.js'
import { Database as PostgresDatabase } from '../postgres/database.js'
import { openPostgres } from '../postgres/index.js'
import { PostgresRecordPort } from '../postgres/record-port.js'
import { migrate } from '../sqlite/open-file.js'
import { SqliteRecordPort } from '../sqlite/record-port.js'
import { recordStatementsOf } from '../sqlite/statements/record-port.js'
import type { RecordPort, StoredRecord } from './record-port.js'
import type { Promised } from './steps.js'

type Records = RecordPort | Promised<RecordPort>

/** Runs a function in a transaction of a store. */
type InTransaction = <T>(work: (records: Records) => Promise<T>) => Promise<T>

let pool: pg.Pool
let postgres: PostgresDatabase
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
  await (await openPostgres(pool, { listen: false })).close()
  postgres = new PostgresDatabase({ pool, schema: 'redrive', name: 'x', timeoutMs: 15_000, clock: undefined })
}, 120_000)
afterAll(() => pool.end())

const onPostgres: InTransaction = work => postgres.together(sql => work(new PostgresRecordPort(sql)))

const STORES: Readonly<Record<string, () => InTransaction>> = {
  memory() {
    const records = new MemoryRecords()
    return work => work(records)
  },
  SQLite() {
    const db = new Database(':memory:')
    migrate(db, ':memory:')
    const records = new SqliteRecordPort(recordStatementsOf(db))
    return work => work(records)
  },
  PostgreSQL: () => onPostgres,
}

const record = (id: string, more: Partial<StoredRecord> = {}): StoredRecord => {
  return { id, place: 1, isOpen: true, state: '{}', ...more }
}
const idsOf = (records: readonly StoredRecord[]) => records.map(({ id }) => id)

describe.each(Object.entries(STORES))('records on %s', (_, open) => {
  /** A store, and a type of record that no other test has. */
  const begin = () => ({ inTransaction: open(), type: crypto.randomUUID() })

  it('are kept by type and id, and replaced', async () => {
    const { inTransaction, type } = begin()
    const state = JSON.stringify({ text: 'NUL \0, half of 🚀: \ud83d, quotes \' " \\' })
    const saved = record('🚀 \'"', { place: 1_700_000_000_000, state })
    await inTransaction(records => Promise.resolve(records.save(type, [saved, record('b')])))
    expect(await inTransaction(async records => records.get(type, saved.id))).toEqual(saved)
    expect(await inTransaction(async records => records.get(type, 'absent'))).toBeUndefined()
    expect(await inTransaction(async records => records.get(`${type}-other`, 'b'))).toBeUndefined()
    const replaced = record('b', { place: 7, isOpen: false, state: '[1]' })
    await inTransaction(async records => records.save(type, [replaced]))
    expect(await inTransaction(async records => records.list(type, '', 9))).toEqual([replaced, saved])
  })

  it('are listed over all types, in the order of types and ids', async () => {
    const { inTransaction, type } = begin()
    const [first, second] = [`${type}-1`, `${type}-2`]
    await inTransaction(async records => {
      await records.save(second, [record('a')])
      await records.save(first, [record('b'), record('a', { place: 9, isOpen: false })])
    })
    const found = await inTransaction(async records => records.all({ type: first, id: '' }, 2))
    expect(found).toEqual([
      { type: first, ...record('a', { place: 9, isOpen: false }) },
      { type: first, ...record('b') },
    ])
    const rest = await inTransaction(async records => records.all({ type: first, id: 'b' }, 1))
    expect(rest).toEqual([{ type: second, ...record('a') }])
  })

  it('are listed page by page in the order of their ids, by code points', async () => {
    const { inTransaction, type } = begin()
    const ids = ['Z', 'a', 'b', '\uffee', '🚀']
    await inTransaction(async records => records.save(type, ids.map(id => record(id)).reverse()))
    expect(idsOf(await inTransaction(async records => records.list(type, '', 2)))).toEqual(['Z', 'a'])
    expect(idsOf(await inTransaction(async records => records.list(type, 'a', 9)))).toEqual(['b', '\uffee', '🚀'])
    expect(idsOf(await inTransaction(async records => records.lock(type, ['🚀', 'b', 'absent', 'a', 'b'])))).toEqual([
      'a',
      'b',
      '🚀',
    ])
  })

  it('are due if they are open and their place has come, the first ones first', async () => {
    const { inTransaction, type } = begin()
    const due = [record('c', { place: 10 }), record('b', { place: 20 }), record('d', { place: 20 })]
    const others = [record('a', { place: 21 }), record('e', { isOpen: false })]
    await inTransaction(async records => records.save(type, [...others, ...due]))
    expect(await inTransaction(async records => records.lockDue(type, 20, 9))).toEqual(due)
    expect(await inTransaction(async records => records.lockDue(type, 20, 2))).toEqual(due.slice(0, 2))
    expect(await inTransaction(async records => records.lockDue(type, 9, 9))).toEqual([])
    expect(await inTransaction(async records => records.nextPlace(type))).toBe(10)
    expect(await inTransaction(async records => records.nextPlace(`${type}-other`))).toBeUndefined()
  })

  it('are listed by place, newest first: all of them, or those that are open', async () => {
    const { inTransaction, type } = begin()
    const [old, b, a, newest] = [
      record('z', { place: 1 }),
      record('b', { place: 2, isOpen: false }),
      record('a', { place: 2 }),
      record('c', { place: 3, isOpen: false }),
    ]
    await inTransaction(async records => records.save(type, [a, b, newest, old]))
    const top = { place: 3, id: 'd' }
    expect(await inTransaction(async records => records.newest(type, false, top, 9))).toEqual([newest, b, a, old])
    expect(await inTransaction(async records => records.newest(type, false, newest, 1))).toEqual([b])
    expect(await inTransaction(async records => records.newest(type, false, b, 9))).toEqual([a, old])
    expect(await inTransaction(async records => records.newest(type, true, top, 9))).toEqual([a, old])
    expect(await inTransaction(async records => records.newest(type, true, a, 9))).toEqual([old])
  })

  it('are dropped by id, or the oldest ones that are not open', async () => {
    const { inTransaction, type } = begin()
    const closed = ['a', 'b', 'c', 'd'].map((id, place) => record(id, { place, isOpen: false }))
    await inTransaction(async records => {
      await records.save(type, [...closed, record('e'), record('f')])
      await records.save(`${type}-other`, closed)
      await records.drop(type, ['f', 'absent'])
    })
    expect(await inTransaction(async records => records.lockClosed(type, 2, 2))).toEqual(closed.slice(0, 2))
    expect(await inTransaction(async records => records.lockClosed(type, 2, 9))).toEqual(closed.slice(0, 3))
    expect(await inTransaction(async records => records.dropClosed(type, 2, 2))).toBe(2)
    expect(idsOf(await inTransaction(async records => records.list(type, '', 9)))).toEqual(['c', 'd', 'e'])
    expect(await inTransaction(async records => records.dropClosed(type, 2, 9))).toBe(1)
    expect(idsOf(await inTransaction(async records => records.list(type, '', 9)))).toEqual(['d', 'e'])
    expect(await inTransaction(async records => records.list(`${type}-other`, '', 9))).toEqual(closed)
  })
})

describe('records that another transaction of PostgreSQL has locked', () => {
  it('are not due, not dropped, and waited for', async () => {
    const type = crypto.randomUUID()
    const saved = ['a', 'b'].map(id => record(id))
    const closed = record('c', { isOpen: false })
    await onPostgres(async records => records.save(type, [...saved, closed]))
    let unlock = () => {}
    const held = new Promise<void>(resolve => {
      unlock = resolve
    })
    const order: string[] = []
    const first = onPostgres(async records => {
      await records.lock(type, ['a', 'c'])
      order.push('locked')
      await held
      order.push('unlocked')
    })
    await expect.poll(() => order).toEqual(['locked'])
    expect(await onPostgres(async records => records.lockDue(type, 1, 9))).toEqual([saved[1]])
    expect(await onPostgres(async records => records.lockClosed(type, 1, 9))).toEqual([])
    expect(await onPostgres(async records => records.dropClosed(type, 1, 9))).toBe(0)
    const second = onPostgres(async records => {
      await records.lock(type, ['b', 'a'])
      order.push('second')
    })
    await expect
      .poll(
        async () => (await pool.query('SELECT FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()')).rowCount,
      )
      .toBeGreaterThan(0)
    unlock()
    await Promise.all([first, second])
    expect(order).toEqual(['locked', 'unlocked', 'second'])
  })
})
