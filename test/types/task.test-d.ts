import type { Database } from 'better-sqlite3'
import type { SqliteStore } from 'redrive/sqlite'
import { MemoryStore, type Store } from 'redrive/store'
import { defineTask, type TaskContext, Worker } from 'redrive/task'
import { describe, expectTypeOf, it } from 'vitest'

declare const sqlite: SqliteStore
declare const task: TaskContext

describe('once', () => {
  it('gives what the function returns, waited for', () => {
    expectTypeOf(new MemoryStore().once('k', () => 1)).toEqualTypeOf<Promise<number>>()
    expectTypeOf(new MemoryStore().once('k', async () => 1)).toEqualTypeOf<Promise<number>>()
    expectTypeOf(task.once('k', async () => 'text')).toEqualTypeOf<Promise<string>>()
  })

  it('takes a function of the transaction that its store has', () => {
    task.once('k', (db: Database) => db.prepare('SELECT 1').get())
    task.once('k', async (client: { query(text: string): Promise<unknown> }) => client.query('SELECT 1'))
    sqlite.once('k', db => expectTypeOf(db).toEqualTypeOf<Database>())
    expectTypeOf<SqliteStore>().toExtend<Store>()
  })

  it('takes parameters in a handler, and the fence from the task alone', () => {
    task.once('k', () => 1, { params: { a: 1 } })
    // @ts-expect-error the fence is the task's own
    task.once('k', () => 1, { fence: { id: '', token: '' } })
  })
})

it('a worker is told how long to keep what is over as durations are written', () => {
  const tasks = [defineTask('work', { handler: () => {} })]
  new Worker(new MemoryStore(), { tasks, retention: { ended: '30d', dead: '90d', keys: '7d', audit: 1000 } })
  // @ts-expect-error not a duration
  new Worker(new MemoryStore(), { tasks, retention: { ended: 'a month' } })
})
