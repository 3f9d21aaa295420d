import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import pg from 'pg'
import { Outbox } from 'redrive/event'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { OutboxEvent } from '../../src/event/internal.js'
import type { StoreContract } from '../../src/store/internal.js'
import { openPostgres } from '../../src/store/postgres/internal.js'
import { openSqlite } from '../../src/store/sqlite/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import { freshDatabase } from '../services/fresh-database.js'
import type { PublishedLine, RelayChildOptions } from './outbox-relay.js'
import { diceOf } from './seed.js'

const dice = diceOf('the order of an outbox')
/** Longer than a busy machine makes a process stand still: nobody else takes an event from a relay that lives. */
const LEASE_MS = 3000
const KEYS = ['a', 'b', 'c', 'd', 'e', '']
const TRANSACTIONS = 150
const KILLS = 3

/** An application that writes events in transactions, through stores that know nothing of each other, as processes do. */
interface Writer {
  readonly url: string
  readonly store: StoreContract
  /** In one transaction, which is rolled back in the end if it is not to be committed. */
  write(events: readonly OutboxEvent[], isCommitted: boolean): Promise<void>
  close(): Promise<void>
}

let folder: string
let relays: ChildProcess[]
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-faults-'))
  relays = []
})
afterEach(() => {
  for (const relay of relays) relay.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

async function onSqlite(): Promise<Writer> {
  const path = join(folder, 'redrive.db')
  const stores = [await openSqlite(path), await openSqlite(path)] as const
  const [store] = stores
  const outboxes = stores.map(store => new Outbox(store))
  const db = new Database(path)
  return {
    url: `sqlite:${path}`,
    store,
    async write(events, isCommitted) {
      db.exec('BEGIN IMMEDIATE')
      for (const event of events) dice.pick(outboxes).publish(db, event)
      db.exec(isCommitted ? 'COMMIT' : 'ROLLBACK')
    },
    async close() {
      db.close()
      for (const store of stores) await store.close()
    },
  }
}

async function onPostgres(): Promise<Writer> {
  const url = await freshDatabase()
  const stores = [await openPostgres(url), await openPostgres(url)] as const
  const [store] = stores
  const outboxes = stores.map(store => new Outbox(store))
  const client = new pg.Client(url)
  await client.connect()
  return {
    url,
    store,
    async write(events, isCommitted) {
      await client.query('BEGIN')
      for (const event of events) await dice.pick(outboxes).publish(client, event)
      await client.query(isCommitted ? 'COMMIT' : 'ROLLBACK')
    },
    async close() {
      await client.end()
      for (const store of stores) await store.close()
    },
  }
}

function startRelay(url: string): ChildProcessByStdio<null, Readable, null> {
  const options: RelayChildOptions = { url, published: join(folder, 'published.log'), leaseMs: LEASE_MS }
  const relay = spawn(process.execPath, ['--import', 'tsx', join(import.meta.dirname, 'outbox-relay.ts')], {
    env: { ...process.env, REDRIVE_FAULT_CHILD: JSON.stringify(options) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  relays.push(relay)
  return relay
}

function publishedLines(): PublishedLine[] {
  const path = join(folder, 'published.log')
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : []
  return lines.filter(line => line !== '').map(line => JSON.parse(line) as PublishedLine)
}

/** Writes transactions of a few events each. Returns the bodies of those that were committed, key by key. */
async function writeEvents({ write }: Writer): Promise<Map<string, string[]>> {
  const committed = new Map<string, string[]>(KEYS.map(key => [key, []]))
  for (let transaction = 0; transaction < TRANSACTIONS; transaction++) {
    const isCommitted = dice.between(1, 10) > 1
    const events = Array.from({ length: dice.between(1, 4) }, (_, n) => {
      const key = dice.pick(KEYS)
      return { type: 'happened', key, body: `${key}-${transaction}-${n}` }
    })
    await write(events, isCommitted)
    for (const { key, body } of isCommitted ? events : []) committed.get(key)?.push(body)
    if (dice.between(1, 3) === 1) await sleep(dice.between(1, 30))
  }
  return committed
}

/** Kills relays at random moments, and starts others in their place. */
async function killRelays(url: string): Promise<Set<number>> {
  const killed = new Set<number>()
  for (let kill = 0; kill < KILLS; kill++) {
    const before = publishedLines().length
    // Somewhere in the middle of its work.
    await vi.waitUntil(() => publishedLines().length > before + 20, { timeout: 300_000, interval: 5 })
    await sleep(dice.between(0, 20))
    const victim = dice.pick(relays.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null))
    victim.kill('SIGKILL')
    await once(victim, 'exit')
    killed.add(Number(victim.pid))
    startRelay(url)
  }
  return killed
}

describe.each([
  ['SQLite', onSqlite],
  ['PostgreSQL', onPostgres],
])('an outbox on %s whose bus fails at random and whose relays are killed', (_, open) => {
  it('publishes all that was committed, and first of each key in its order', { timeout: 180_000 }, async () => {
    const writer = await open()
    // From the first start of a relay on, an event comes after all that are there.
    await Promise.all([startRelay(writer.url), startRelay(writer.url)].map(({ stdout }) => once(stdout, 'data')))
    const [committed, killed] = await Promise.all([writeEvents(writer), killRelays(writer.url)])
    const left = async () => {
      const { waiting, running } = await writer.store.count({ kind: 'outbox' })
      return waiting + running
    }
    await expect.poll(left, { timeout: 120_000, interval: 50 }).toBe(0)

    const lines = publishedLines()
    const first = [...new Set(lines.map(({ body }) => body))]
    for (const [key, bodies] of committed) {
      const seen = first.filter(body => body.startsWith(`${key}-`))
      if (key === '') expect(seen.sort()).toEqual(bodies.sort())
      else expect(seen, `the order of '${key}'`).toEqual(bodies)
    }
    expect((await writer.store.count({ kind: 'outbox' })).dead).toBe(0)

    // Twice only where nobody could know: no confirmation, or a relay that was killed before it had written it down.
    const last = new Map<string, PublishedLine>()
    for (const line of lines) {
      const before = last.get(line.body)
      if (before !== undefined) {
        expect(before, 'a second publish').toSatisfy(({ isConfirmed, pid }) => !isConfirmed || killed.has(pid))
        expect(line.id).toBe(before.id)
      }
      last.set(line.body, line)
    }
    expect(lines.length).toBeGreaterThan(first.length)
    await checkInvariants(writer.store)
    await writer.close()
  })
})
