import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { MemoryBus } from '../bus/index.js'
import type { StoreContract } from '../store/internal.js'
import { MemoryStore } from '../store/internal.js'
import { openPostgres } from '../store/postgres/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'
import { consume } from './index.js'

const ODD = ['\0', '\ud800', '\udc00x', 'x'.repeat(100_000), '', '\u2028', '{}', '💥'.repeat(300), '\u001b[31m']

const failures: readonly unknown[] = [
  ...ODD.flatMap(text => [
    Object.assign(new Error(text), { code: text, name: text, stack: `${text}\n    at ${text} (${text}:1:1)` }),
    Object.assign(new Error('x'), { code: text, status: text, retryAfter: text }),
    text,
    new Error('x', { cause: new Error(text) }),
    new AggregateError([new Error(text), text], text),
  ]),
  null,
  undefined,
  Number.NaN,
  10n ** 40n,
  Symbol('x'),
  () => {},
  new Proxy(
    {},
    {
      get: () => {
        throw new Error('trap')
      },
    },
  ),
  Object.assign(new Error('x'), { status: Number.NaN, code: -0, retryAfter: Number.POSITIVE_INFINITY }),
  Object.assign(new Error('x'), { response: { status: 429, headers: { 'retry-after': '9'.repeat(400) } } }),
  Object.assign(new Error('x'), { toString: null, message: { toString: null } }),
]

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'odd-'))
})
afterAll(() => rm(folder, { recursive: true }))

const STORES: Readonly<Record<string, () => Promise<StoreContract>>> = {
  memory: async () => new MemoryStore(),
  SQLite: () => openSqlite(join(folder, 'store.db')),
  PostgreSQL: async () => openPostgres(await freshDatabase()),
}

it.each(Object.entries(STORES))(
  'a consumer with a store in %s records failures that say odd things, and goes on',
  async (_, open) => {
    const bus = new MemoryBus()
    const store = await open()
    await bus.declare({ q: 't' })
    const ended: unknown[] = []
    const consumer = await consume<{ n: number }>(bus, 'q', {
      store,
      service: 's',
      key: ({ n }) => [`${n}`],
      policy: { attempts: 2, backoff: { kind: 'fixed', base: '1h' } },
      handler: ({ n }) => Promise.reject(failures[n]),
    })
    consumer.stopped.catch(error => ended.push(error))
    for (const n of failures.keys()) await bus.publish({ id: `e${n}`, type: 't', body: JSON.stringify({ n }) })
    await expect
      .poll(async () => Object.values(await store.count({})).reduce((a, b) => a + b, 0) + ended.length * 1e6, {
        timeout: 60_000,
      })
      .toBe(failures.length)
    expect(ended).toEqual([])
    await consumer.stop()
    await store.close()
    await bus.close()
  },
  120_000,
)
