import pg from 'pg'
import { expect, it, onTestFinished, vi } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { StoreClosedError } from '../contract/errors.js'
import { openPostgres, type PostgresStore } from './internal.js'

import { Listener } from './listener.js'

const CLAIM = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 10, isIdle: true }
const FAILED = {
  outcome: { type: 'dead', reason: 'final_error' },
  attempt: {
    attempt: 1,
    startedAt: 0,
    endedAt: 0,
    worker: 'w',
    verdict: { class: 'retryable', code: 'E' },
    error: 'down',
  },
} as const

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Holds as many connections as the store has for transactions, until it is told to let go. */
async function holdTransactions(store: PostgresStore): Promise<() => Promise<void>> {
  let letGo = () => {}
  const held = new Promise<void>(resolve => {
    letGo = resolve
  })
  let begun = 0
  const all = Array.from({ length: 5 }, () =>
    store.transaction(async tx => {
      await tx.query('SELECT 1')
      begun++
      await held
    }),
  )
  await expect.poll(() => begun).toBe(5)
  return async () => {
    letGo()
    await Promise.all(all)
  }
}

it('claims and settles on idle connections of other calls where the role may have no more', async () => {
  const url = new URL(await freshDatabase())
  const admin = await connect(url.href)
  await admin.query(
    `CREATE ROLE few LOGIN CONNECTION LIMIT 5; GRANT CREATE ON DATABASE ${url.pathname.slice(1)} TO few`,
  )
  url.username = 'few'
  const store = await openPostgres(url.href, { listen: false })
  onTestFinished(() => store.close())
  await (await holdTransactions(store))()

  await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
  const { tasks } = await store.claim(CLAIM)
  expect(tasks.map(({ id }) => id)).toEqual(['a'])
  expect(await store.settle(tasks.map(task => ({ ...task, ...FAILED })))).toEqual([{ result: 'settled' }])
  await store.heartbeat({ worker: 'w', leaseMs: 60_000 })
})

it('judges a failure budget while transactions have all other connections', async () => {
  const store = await openPostgres(await freshDatabase(), { listen: false })
  onTestFinished(() => store.close())
  await store.budgets.set({ kind: 'k' }, { failures: { share: 0.5, minAttempts: 2 } })
  await store.enqueue(['a', 'b'].map(id => ({ id, kind: 'k', payload: '{}' })))
  const { tasks } = await store.claim(CLAIM)
  const letGo = await holdTransactions(store)
  const settled = await store.settle(tasks.map(task => ({ ...task, ...FAILED })))
  expect(settled.map(({ result }) => result)).toEqual(['settled', 'settled'])
  await letGo()
  expect((await store.budgets.list())[0]?.gate.state).toBe('open')
})

it('refuses calls that wait for a connection when it is closed, and blames no server for it', async () => {
  const url = await freshDatabase()
  const store = await openPostgres(url, { listen: false })
  const [admin, onlooker] = [await connect(url), await connect(url)]
  await admin.query('BEGIN; LOCK redrive.waiting')
  const waiting = Array.from({ length: 5 }, () => store.claim(CLAIM).catch((error: unknown) => error))
  const busy = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  await expect.poll(async () => (await onlooker.query(busy)).rowCount).toBe(2)
  const closed = store.close()
  const refused = await Promise.all(waiting.slice(2))
  for (const error of refused) expect(error).toBeInstanceOf(StoreClosedError)
  await admin.query('ROLLBACK')
  await closed
  expect(await Promise.all(waiting.slice(0, 2))).toMatchObject([{ tasks: [] }, { tasks: [] }])
})

it('does not keep a process alive with the connection that listens, once nobody does', async () => {
  const client = new pg.Client(await freshDatabase())
  const listener = new Listener(async () => {
    await client.connect()
    return client
  })
  onTestFinished(() => listener.stop())
  const hold = vi.fn<() => void>()
  const letGo = vi.fn<() => void>()
  Object.assign(client, { ref: hold, unref: letGo })
  let stop = () => {}
  await new Promise<void>(heard => {
    stop = listener.on('anything', () => heard())
  })
  stop()
  expect(letGo).toHaveBeenCalledOnce()
  listener.on('anything', () => {})
  expect(hold).toHaveBeenCalledOnce()
})

it('plans claims on a connection before the first claim there reads the clock, so that rates hold', async () => {
  const pool = new pg.Pool({ connectionString: await freshDatabase(), max: 1 })
  onTestFinished(() => pool.end())
  const store = await openPostgres(pool, { listen: false })
  onTestFinished(() => store.close())
  await store.limit({ kind: 'k' }, { perSecond: 5 })
  await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
  await store.cancelled('w')
  const planned = async () => {
    const text = `SELECT ident FROM pg_backend_memory_contexts WHERE name = 'PL/pgSQL function'`
    return (await pool.query<{ ident: string }>(text)).rows.map(({ ident }) => ident.replace(/^redrive\.|\(.*/g, ''))
  }
  const before = await planned()
  expect((await store.claim(CLAIM)).tasks).toHaveLength(1)
  const after = await planned()
  expect(after.filter(fn => !before.includes(fn))).toEqual(['claim'])
})
