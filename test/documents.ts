import Database from 'better-sqlite3'
import { MemoryBus, textOf } from '../src/bus/index.js'
import {
  type CollectionOptions,
  type DocumentRecord,
  openSqliteSource,
  type SweeperOptions,
  sweeper,
} from '../src/document/index.js'
import type { WorkEvent } from '../src/telemetry/index.js'
import { fakeClock } from '../src/testing/index.js'

const fields = { attemptCount: 'attempt_count', lastAttemptTime: 'last_attempt_time', lastError: 'last_error' }

/** Documents in a table of SQLite, with a queue for their events. */
export const archives: CollectionOptions = {
  name: 'archives',
  time: 'ms',
  fields,
  event: { type: 'archive.ingested', data: ({ id }: DocumentRecord) => ({ archive_id: id }) },
}

/** The same documents, with attempts that count when they begin. */
export const fenced: CollectionOptions = {
  ...archives,
  fields: { ...fields, generation: 'generation', retryAt: 'retry_at', dispatches: 'dispatches' },
}

/** A SQLite database with the tables `archives` and `graveyard`, a clock of its own, and a bus. */
export async function someArchives() {
  const clock = fakeClock(Date.UTC(2026, 0, 10))
  const db = new Database(':memory:')
  for (const table of ['archives', 'graveyard']) {
    db.exec(`CREATE TABLE ${table} (id TEXT PRIMARY KEY, status TEXT, attempt_count INTEGER, last_attempt_time INTEGER,
      generation INTEGER, retry_at INTEGER, dispatches INTEGER, created_at INTEGER, last_error TEXT)`)
  }
  const source = await openSqliteSource(db, { clock })
  const bus = new MemoryBus()
  await bus.declare({ parsing: 'archive.ingested' })
  const events: WorkEvent[] = []
  return {
    clock,
    db,
    source,
    bus,
    events,
    insert: (id: string, row: Readonly<Record<string, unknown>> = {}) => {
      const given = { status: 'pending', ...row, id }
      const names = Object.keys(given)
      db.prepare(`INSERT INTO archives (${names}) VALUES (${names.map(name => `@${name}`)})`).run(given)
    },
    row: (id: string, table = 'archives') => db.prepare(`SELECT * FROM ${table} WHERE id = ?`).get(id),
    sweeps: (options: Partial<SweeperOptions> = {}) =>
      sweeper({ source, bus, collections: [archives], clock, sink: event => void events.push(event), ...options }),
    /** Takes the events that wait, in their order. */
    taken: async () => {
      const [queue] = await bus.status({ parsing: 'archive.ingested' })
      const ids: string[] = []
      const consumer = await bus.consume('parsing', delivery => {
        ids.push(String(JSON.parse(textOf(delivery)).data.archive_id))
        delivery.ack()
      })
      while (ids.length < (queue?.messages ?? 0)) await new Promise(resolve => setImmediate(resolve))
      await consumer.stop()
      return ids
    },
  }
}
