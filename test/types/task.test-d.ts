import type { Database } from 'better-sqlite3'
import type { SqliteStore } from 'redrive/sqlite'
import { MemoryStore, type Store } from 'redrive/store'
import { defineTask, type StandardSchema, type TaskContext, TaskQueue, Worker } from 'redrive/task'
import { describe, expectTypeOf, it } from 'vitest'

declare const sqlite: SqliteStore
declare const task: TaskContext

describe('the payload of a task', () => {
  const queue = new TaskQueue({} as Store)

  it('is what its handler takes', () => {
    const greet = defineTask('greet', { handler: ({ name }: { name: string }) => name })
    queue.enqueue(greet, { name: 'ada' })
    // @ts-expect-error a field is missing
    queue.enqueue(greet, {})
    // @ts-expect-error a field is missing
    queue.enqueueMany(greet, [{ payload: {} }])
  })

  it('is what its schema takes, and its handler gets what the schema makes of it', () => {
    const url = {} as StandardSchema<string, URL>
    const visit = defineTask('visit', { payload: url, handler: at => expectTypeOf(at).toEqualTypeOf<URL>() })
    queue.enqueue(visit, 'https://example.com')
    queue.prepare(visit, 'https://example.com')
    // @ts-expect-error what the schema makes, not what it takes
    queue.enqueue(visit, new URL('https://example.com'))
    new Worker({} as Store, { tasks: [visit, defineTask('other', { handler: (_: number) => {} })] })
  })
})

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
