import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { freshDatabase } from './fresh-database.js'
import { type NetworkProxy, startProxy } from './proxy.js'

let proxy: NetworkProxy
let direct: Client
let client: Client

async function connected(url: string): Promise<Client> {
  const client = new Client(url)
  client.on('error', () => {})
  await client.connect()
  return client
}

beforeEach(async () => {
  const url = await freshDatabase()
  proxy = await startProxy(url)
  direct = await connected(url)
  client = await connected(proxy.through(url))
  await client.query('CREATE TABLE item (n int)')
})

afterEach(async () => {
  await proxy.close()
  await direct.end()
})

const count = async () => Number((await direct.query('SELECT count(*) FROM item')).rows[0].count)

it('cuts a connection after COMMIT and before the answer', async () => {
  const cut = proxy.cutBeforeAnswer('COMMIT')
  await client.query('BEGIN')
  await client.query('INSERT INTO item VALUES (1)')
  await expect(client.query('COMMIT')).rejects.toThrow('Connection terminated')
  await cut
  expect(await count()).toBe(1)
})

it('cuts all connections, and accepts new ones', async () => {
  await client.query('BEGIN')
  await client.query('INSERT INTO item VALUES (1)')
  const pending = client.query('SELECT pg_sleep(60)')
  proxy.cut()
  await expect(pending).rejects.toThrow(/Connection terminated|ECONNRESET/)
  expect(await count()).toBe(0)

  const again = await connected(proxy.through(await freshDatabase()))
  expect((await again.query('SELECT 1 AS n')).rows).toEqual([{ n: 1 }])
})

it('lets nothing through a black hole, and afterwards what was under way', async () => {
  proxy.blackHole()
  const pending = client.query('INSERT INTO item VALUES (1)')
  expect(await Promise.race([pending, sleep(100, 'silence')])).toBe('silence')
  expect(await count()).toBe(0)
  proxy.repair()
  await pending
  expect(await count()).toBe(1)
})

it('tells the server nothing of a client that left during a black hole', async () => {
  // Not the server's own processes: one of those may be at work in any database.
  const clients = `SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'`
  const backends = async () => Number((await direct.query(clients)).rows[0].count)
  proxy.blackHole()
  client.end().catch(() => {})
  await sleep(100)
  expect(await backends()).toBe(2)
  proxy.repair()
  await expect.poll(backends).toBe(1)
})

it('delays what it forwards, in both directions', async () => {
  proxy.delayMs = 50
  const start = performance.now()
  await client.query('SELECT 1')
  expect(performance.now() - start).toBeGreaterThanOrEqual(99)
})
