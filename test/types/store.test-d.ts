import type { PoolClient } from 'pg'
import type { openPostgres } from 'redrive/postgres'
import type { openSqlite } from 'redrive/sqlite'
import { MemoryStore, type Store } from 'redrive/store'
import { expectTypeOf, it } from 'vitest'

/** The members that have a name. */
type Named<T> = Extract<keyof T, string>
type Reads = 'get' | 'list' | 'count' | 'ledger' | 'lanes' | 'audit' | 'budgets' | 'groups' | 'idempotency'
type Writes = 'enqueue' | 'pause' | 'limit' | 'once' | 'close'

declare const postgres: Awaited<ReturnType<typeof openPostgres>>
declare const client: PoolClient

it('a store shows its users what they call, and no other verb', () => {
  expectTypeOf<Named<Store>>().toEqualTypeOf<Reads | Writes>()
  expectTypeOf<Named<MemoryStore>>().toEqualTypeOf<Reads | Writes>()
  expectTypeOf<Named<Awaited<ReturnType<typeof openSqlite>>>>().toEqualTypeOf<
    Reads | Writes | 'transaction' | 'enqueueIn' | 'backup'
  >()
  expectTypeOf<Named<Awaited<ReturnType<typeof openPostgres>>>>().toEqualTypeOf<
    Reads | Writes | 'transaction' | 'enqueueIn' | 'completeIn' | 'onceIn'
  >()
})

it('an object with the same verbs is no store', () => {
  const { get, list, count, ledger, lanes, audit, budgets, groups, idempotency } = new MemoryStore()
  const { enqueue, pause, limit, once, close } = new MemoryStore()
  const reads = { get, list, count, ledger, lanes, audit, budgets, groups, idempotency }
  expectTypeOf({ ...reads, enqueue, pause, limit, once, close }).not.toExtend<Store>()
})

it('`once` and `onceIn` refuse a function whose result cannot be stored', () => {
  // @ts-expect-error the whole result of a query
  postgres.once('k', tx => tx.query('SELECT 1'))
  // @ts-expect-error the same in a transaction of one's own
  postgres.onceIn(client, 'k', client => client.query('SELECT 1'))
  // @ts-expect-error the same in a transaction of the store's
  postgres.transaction(tx => postgres.onceIn(tx, 'k', async tx => tx.query('SELECT 1')))
  postgres.onceIn(client, 'k', async client => void (await client.query('SELECT 1')))
  const rows = postgres.onceIn(client, 'k', async client => (await client.query<{ id: number }>('SELECT 1')).rows)
  expectTypeOf(rows).toEqualTypeOf<Promise<{ id: number }[]>>()
  expectTypeOf(postgres.onceIn(client, 'k', () => 1)).toEqualTypeOf<Promise<number>>()
})
