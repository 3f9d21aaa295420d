import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { StoreUnavailableError } from 'redrive/store'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openPostgres, type PostgresStore } from '../../src/store/postgres/internal.js'
import { type NetworkProxy, startProxy } from '../services/proxy.js'
import { ownPostgres } from './own-postgres.js'
import { until } from './scene.js'
import { diceOf } from './seed.js'

const STORES = 10
const INTERRUPTIONS = 8

const dice = diceOf('a migration that is interrupted')
const postgres = ownPostgres()
let url: string
let proxy: NetworkProxy
let admin: Client
beforeEach(async () => {
  url = await postgres.server.createDatabase()
  proxy = await startProxy(url)
  admin = new Client(url)
  await admin.connect()
})
afterEach(async () => {
  await admin.end()
  await proxy.close()
})

const openAll = () => Promise.allSettled(Array.from({ length: STORES }, () => openPostgres(proxy.through(url))))

async function closeAll(opened: Awaited<ReturnType<typeof openAll>>): Promise<void> {
  for (const result of opened) if (result.status === 'fulfilled') await result.value.close()
}

const hasSchema = async () => (await admin.query(`SELECT FROM pg_namespace WHERE nspname = 'redrive'`)).rowCount === 1

/** It takes a task, and gives it out. */
async function expectToWork(store: PostgresStore): Promise<void> {
  const [added] = await store.enqueue([{ kind: 'k', payload: '{}' }])
  const claim = await store.claim({ worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['k'] }], limit: 10, isIdle: true })
  expect(claim.tasks.map(({ id }) => id)).toContain(added?.id)
}

describe('a migration', { timeout: 300_000 }, () => {
  it(`is made once, by one of ${STORES} who open the store at the same time`, async () => {
    const opened = await openAll()
    expect(opened.map(({ status }) => status)).toEqual(Array(STORES).fill('fulfilled'))
    for (const result of opened) if (result.status === 'fulfilled') await expectToWork(result.value)
    expect((await admin.query('SELECT FROM redrive.schema_version')).rowCount).toBe(1)
    await closeAll(opened)
  })

  it('that is cut off half-way has not begun, and the next to open the store makes it', async () => {
    const cut = proxy.cutBeforeAnswer('CREATE FUNCTION')
    await expect(openPostgres(proxy.through(url))).rejects.toBeInstanceOf(StoreUnavailableError)
    await cut
    expect(await hasSchema()).toBe(false)
    const store = await openPostgres(proxy.through(url))
    await expectToWork(store)
    await store.close()
  })

  it('that is cut off after its commit has been made', async () => {
    // The first is that of the look at what is there.
    const cut = proxy.cutBeforeAnswer('COMMIT', { skip: 1 })
    await expect(openPostgres(proxy.through(url))).rejects.toBeInstanceOf(StoreUnavailableError)
    await cut
    expect(await hasSchema()).toBe(true)
    const store = await openPostgres(proxy.through(url))
    await expectToWork(store)
    await store.close()
  })

  it(`that is cut off at ${INTERRUPTIONS} random moments, by ${STORES} at once, is made in the end`, async () => {
    for (let round = 0; round < INTERRUPTIONS; round++) {
      const opening = openAll()
      await sleep(dice.between(0, 80))
      proxy.cut()
      await closeAll(await opening)
      if (round % 2 === 0) await admin.query('DROP SCHEMA IF EXISTS redrive CASCADE')
    }
    const store = await openPostgres(url)
    await expectToWork(store)
    await store.close()
  })

  it('that dies with the server is made when that is back', async () => {
    // So that it takes long enough to be seen.
    proxy.delayMs = 20
    const opening = openAll()
    await until('it has begun', async () => {
      const { rowCount } = await admin.query(`SELECT FROM pg_locks WHERE locktype = 'advisory'`)
      return rowCount !== 0
    })
    admin.on('error', () => {})
    await postgres.server.stop('immediate')
    await closeAll(await opening)
    await postgres.server.start()
    const store = await openPostgres(url)
    await expectToWork(store)
    await store.close()
  })
})
