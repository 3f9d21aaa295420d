import type { openPostgres } from 'redrive/postgres'
import type { openSqlite } from 'redrive/sqlite'
import { MemoryStore, type Store } from 'redrive/store'
import { expectTypeOf, it } from 'vitest'

/** The members that have a name. */
type Named<T> = Extract<keyof T, string>
type Reads = 'get' | 'list' | 'count' | 'ledger' | 'lanes' | 'audit' | 'budgets' | 'groups' | 'idempotency'
type Writes = 'enqueue' | 'pause' | 'limit' | 'once' | 'close'

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
