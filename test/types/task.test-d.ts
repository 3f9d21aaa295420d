import type { Database } from 'better-sqlite3'
import type { PoolClient } from 'pg'
import {
  declareTask,
  defineTask,
  later,
  type StandardSchema,
  skip,
  type Task,
  type TaskContext,
  TaskQueue,
  Worker,
} from 'redrive/task'
import { describe, expectTypeOf, it } from 'vitest'
import { MemoryStore, type StoreContract } from '../../src/store/internal.js'
import type { SqliteStore } from '../../src/store/sqlite/internal.js'

declare const sqlite: SqliteStore
declare const task: TaskContext

describe('the payload of a task', () => {
  const queue = new TaskQueue({} as StoreContract)

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
    new Worker({} as StoreContract, { tasks: [visit, defineTask('other', { handler: (_: number) => {} })] })
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
    // @ts-expect-error the whole result of a query cannot be stored
    task.once('k', (client: PoolClient) => client.query('SELECT 1'))
    task.once('k', async (client: PoolClient) => (await client.query('SELECT 1')).rows)
    task.once('k', async (client: PoolClient) => void (await client.query('SELECT 1')))
    // @ts-expect-error JSON has no form for a Map
    task.once('k', () => new Map())
    sqlite.once('k', db => expectTypeOf(db).toEqualTypeOf<Database>())
    expectTypeOf<SqliteStore>().toExtend<StoreContract>()
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

describe('the type of a payload', () => {
  const handler = () => {}

  it('is of a type that JSON keeps', () => {
    interface Tree {
      readonly children: readonly Tree[]
      readonly label?: string
    }
    defineTask('a', { handler: (_: { to: string; tags: string[]; at: number | null }) => {} })
    defineTask('b', { handler: (_: Tree) => {} })
    defineTask('c', { handler: (_: Record<string, unknown>) => {} })
    defineTask('d', { handler: (_: readonly [string, number?]) => {} })
    defineTask('e', { handler })
    declareTask<{ to: string }>('f')
    declareTask<Tree>('g', { policy: { attempts: 2 } })
    defineTask('h', {
      handler: (_: { readonly a?: undefined; b: string | undefined; c: ReturnType<typeof JSON.parse> }) => {},
    })
    declareTask<void>('i')
  })

  class Account {
    readonly id = 1
    readonly #secret = 2
    static sum(one: Account): number {
      return one.id + one.#secret
    }
  }

  it('needs a schema where JSON changes it', () => {
    // @ts-expect-error the handler would get text
    defineTask('a', { handler: (_: { on: Date }) => {} })
    // @ts-expect-error a map becomes {}
    defineTask('b', { handler: (_: Map<string, number>) => {} })
    // @ts-expect-error the methods of a class are gone
    defineTask('c', { handler: (_: { id: number; save(): void }) => {} })
    // @ts-expect-error JSON does not take it
    defineTask('d', { handler: (_: { readonly list: readonly bigint[] }) => {} })
    // @ts-expect-error the handler would get text
    declareTask<{ on: Date }>('e')
    // @ts-expect-error a set becomes {}
    defineTask('h', { handler: (_: { tags: Set<string> }) => {} })
    // @ts-expect-error JSON has null in the place of undefined
    defineTask('i', { handler: (_: (string | undefined)[]) => {} })
    // @ts-expect-error the member is gone
    defineTask('j', { handler: (_: { nothing: undefined }) => {} })
    // @ts-expect-error the private member of the class is gone
    defineTask('k', { handler: (_: Account) => {} })
    // @ts-expect-error undefined arrives as null
    defineTask('l', { handler: (_: string | undefined) => {} })

    const fromText = {} as StandardSchema<{ on: string }, { on: Date }>
    const remind = defineTask('f', { payload: fromText, handler: ({ on }) => expectTypeOf(on).toEqualTypeOf<Date>() })
    new TaskQueue(new MemoryStore()).enqueue(remind, { on: '2030-01-01' })
    // @ts-expect-error a date cannot be enqueued
    defineTask('g', { payload: {} as StandardSchema<{ on: Date }>, handler })
  })
})

describe('the result of a task', () => {
  const queue = new TaskQueue(new MemoryStore())
  const fromText = {} as StandardSchema<string, Date>

  it('is of the type that its handler returns', () => {
    const size = defineTask('size', { handler: async (text: string) => ({ length: text.length }) })
    expectTypeOf(queue.result('id', { task: size })).toEqualTypeOf<Promise<{ length: number }>>()
    expectTypeOf(queue.result('id')).toEqualTypeOf<Promise<unknown>>()
    expectTypeOf(queue.get('id', { task: size })).toEqualTypeOf<Promise<Task<string, { length: number }> | undefined>>()
    const nothing = defineTask('nothing', { handler: async (n: number) => (n > 2 ? skip('no') : later('5m')) })
    expectTypeOf(queue.result('id', { task: nothing })).toEqualTypeOf<Promise<never>>()
    expectTypeOf(queue.result('id', { task: declareTask<string, number>('n') })).toEqualTypeOf<Promise<number>>()
  })

  it('is of the type that its schema makes of it', () => {
    const due = defineTask('due', { result: fromText, handler: (_: number) => '2030-01-01' })
    expectTypeOf(queue.result('id', { task: due })).toEqualTypeOf<Promise<Date>>()
    const declared = declareTask('due', { result: fromText })
    expectTypeOf(queue.result('id', { task: declared })).toEqualTypeOf<Promise<Date>>()
    defineTask(declared, { handler: () => '2030-01-01' })
    // @ts-expect-error it returns what the schema takes
    defineTask(declared, { handler: () => new Date() })
  })

  it('needs a schema where JSON changes it', () => {
    // @ts-expect-error text would be read
    defineTask('a', { handler: () => new Date() })
    // @ts-expect-error nothing of it is kept
    defineTask('b', { handler: async () => new Response() })
    // @ts-expect-error text would be read
    declareTask<string, { on: Date }>('c')
    // @ts-expect-error JSON does not take it
    defineTask('d', { handler: () => ({ big: 1n }) })
    defineTask('e', { handler: async () => {} })
    defineTask('f', { handler: () => new Promise<void>(() => {}) })
    defineTask('g', { handler: () => Promise.reject(new Error('no')) })
  })
})

it('a declared task hands its types to whoever enqueues and to whoever handles it', () => {
  const send = declareTask<{ to: string }, number>('send')
  const queue = new TaskQueue(new MemoryStore())
  queue.enqueue(send, { to: 'ada' })
  // @ts-expect-error not its payload
  queue.enqueue(send, { from: 'ada' })
  defineTask(send, {
    handler: ({ to }) => {
      expectTypeOf(to).toEqualTypeOf<string>()
      return to.length
    },
  })
  // @ts-expect-error not its result
  defineTask(send, { handler: () => 'text' })
  // @ts-expect-error it has no handler
  new Worker(new MemoryStore(), { tasks: [send] })
})
