import Database from 'better-sqlite3'
import { MemoryBus } from 'redrive/bus'
import { documentService, openSqliteSource, sweeper } from 'redrive/document'
import { consume, Outbox } from 'redrive/event'
import { storeMetrics } from 'redrive/metrics'
import { notify } from 'redrive/notify'
import * as operate from 'redrive/operate'
import { pipeline, stage } from 'redrive/pipeline'
import { MemoryStore, moveStore, type Store } from 'redrive/store'
import { storeAudit, TaskQueue, Worker } from 'redrive/task'
import { describe, expect, it } from 'vitest'
import type { OutboxStore } from '../src/event/internal.js'

const REFUSAL = /^'store' must be a new MemoryStore\(\), or what openSqlite\(\) or openPostgres\(\) resolved with; got /

const none = {} as Store
const lines = pipeline(
  'p',
  stage('s', (line: string) => line),
)
const consumer = { service: 's', key: () => ['e'], store: none, handler: () => {} }
const collection = { name: 'c', event: { type: 't', data: () => ({}) } }

const boundaries: Record<string, () => unknown> = {
  TaskQueue: () => new TaskQueue(none),
  Worker: () => new Worker(none, {}),
  storeAudit: () => storeAudit(none),
  'pipeline.start': () => lines.start(['a'], { store: none }),
  'pipeline.resume': () => lines.resume('r', { store: none }),
  consume: () => consume(new MemoryBus(), 'q', consumer),
  Outbox: () => new Outbox(none as OutboxStore<unknown, unknown>),
  sweeper: async () => {
    const source = await openSqliteSource(new Database(':memory:'))
    return sweeper({ source, bus: new MemoryBus(), collections: [collection], store: none })
  },
  documentService: async () => {
    const source = await openSqliteSource(new Database(':memory:'))
    return documentService({ source, collection, store: none })
  },
  notify: () => notify(none, { to: { name: 'n', send: async () => {} } }),
  storeMetrics: () => storeMetrics(none),
  'moveStore, as its source': () => moveStore(none, new MemoryStore()),
}

const functions = Object.entries<unknown>(operate).filter(
  (entry): entry is [string, (...values: unknown[]) => unknown] =>
    typeof entry[1] === 'function' && /^[^(]*\(store\b/.test(String(entry[1])),
)

describe('what is no store', () => {
  it.each(Object.entries(boundaries))('is refused by %s', async (_, use) => {
    await expect((async () => use())()).rejects.toThrow(REFUSAL)
  })

  it('is tried on every function of `redrive/operate` that takes one', () => {
    expect(functions.length).toBeGreaterThan(30)
  })

  it.each(functions)('is refused by %s()', async (_, use) => {
    const end = async () => {
      const result = await use(none, { kinds: [] }, {}, {})
      if (isAsyncIterable(result)) for await (const _ of result) break
    }
    await expect(end()).rejects.toThrow(REFUSAL)
  })
})

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return value instanceof Object && Symbol.asyncIterator in value
}
