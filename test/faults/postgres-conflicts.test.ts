import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import { openPostgres, type PostgresStore } from '../../src/store/postgres/internal.js'
import { allTasks } from '../conformance/invariants.js'
import { expectAllAccountedFor } from './accounts.js'
import { ownPostgres } from './own-postgres.js'
import { Scene, until } from './scene.js'
import { diceOf } from './seed.js'

const WORKERS = 10
const ROUNDS = 10
/** As long as a call waits until it looks, once, whether it is in a deadlock. A busy machine must make one by then. */
const DEADLOCK_MS = 4000

const dice = diceOf('conflicts within PostgreSQL')
const postgres = ownPostgres()

async function connected(url: string): Promise<Client> {
  const client = new Client(url)
  await client.connect()
  return client
}

/** Changes a setting of a database, for all who connect from now on. */
async function set(url: string, setting: string, value: string): Promise<void> {
  const admin = await connected(url)
  await admin.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET ${setting} = '${value}'`)
  await admin.end()
}

/** How many transactions a database has undone. */
async function undone(url: string): Promise<number> {
  const admin = await connected(url)
  const { rows } = await admin.query('SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()')
  await admin.end()
  return Number(rows[0].xact_rollback)
}

/** How many wait for a lock. */
async function waiting(admin: Client): Promise<number> {
  const { rows } = await admin.query(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  )
  return rows.length
}

describe('transactions that get in each other’s way', { timeout: 300_000 }, () => {
  it.each(['repeatable read', 'serializable'])('under %s are done again until all is done', async isolation => {
    const url = await postgres.server.createDatabase()
    await set(url, 'default_transaction_isolation', isolation)
    const scene = await Scene.on(url)
    try {
      const workers = [
        scene.start({ leaseMs: 10_000 }),
        scene.start({ leaseMs: 10_000 }),
        scene.start({ leaseMs: 10_000 }),
      ]
      await Promise.all(workers.map(({ ready }) => ready))
      const payloads = () =>
        Array.from({ length: 10 }, () => ({ ms: dice.between(0, 5), failures: dice.pick([0, 0, 1]) }))
      for (let round = 0; round < ROUNDS / 2; round++) {
        await Promise.all([
          scene.addSurely(scene.tasks.write, payloads()),
          scene.addSurely(scene.tasks.complete, payloads()),
        ])
      }
      await expectAllAccountedFor(scene)
      for (const worker of workers) {
        expect(worker.isOver, worker.errors).toBe(false)
        expect(await worker.stop()).toMatchObject({ stale: 0 })
      }
      // Where less is forbidden, luck decides whether they meet.
      if (isolation === 'serializable') await until('the database tells', async () => (await undone(url)) > 0)
      const counts = JSON.stringify(await scene.store.count({}))
      process.stdout.write(`[faults] ${isolation}: ${await undone(url)} transactions were undone: ${counts}\n`)
    } finally {
      await scene.close()
    }
  })

  it('in a deadlock: the store’s is done again when it is the one that is given up', async () => {
    const url = await postgres.server.createDatabase()
    await set(url, 'deadlock_timeout', `${DEADLOCK_MS}ms`)
    const store = await openPostgres(url)
    const [mine, admin] = [await connected(url), await connected(url)]
    try {
      const task = (id: string) => ({ id, kind: 'k', payload: '{}' })
      // Their lane is there, so that they meet at the tasks.
      await store.enqueue([task('first')])
      await mine.query('BEGIN')
      // It waits for ever, so that it is never the one that is given up.
      await mine.query(`SET LOCAL deadlock_timeout = '1h'`)
      await store.enqueueIn(mine, [task('a')])
      const enqueueing = store.enqueue([task('b'), task('c'), task('a')])
      await until('the store waits for a', async () => (await waiting(admin)) === 1)
      const mineToo = store.enqueueIn(mine, [task('b')])
      await until('each waits for the other', async () => (await waiting(admin)) === 2)
      expect(await mineToo).toEqual([{ id: 'b', isNew: true, outcome: 'created' }])
      await mine.query('COMMIT')
      expect(await enqueueing).toMatchObject([
        { id: 'b', isNew: false, outcome: 'kept', status: 'waiting' },
        { id: 'c', isNew: true, outcome: 'created' },
        { id: 'a', isNew: false, outcome: 'kept', status: 'waiting' },
      ])
      expect(await store.count({})).toMatchObject({ waiting: 4 })
    } finally {
      await Promise.all([mine.end(), admin.end(), store.close()])
    }
  })

  it('as they enqueue the same ids in opposite orders: each task is there once, and new to one of them', async () => {
    const url = await postgres.server.createDatabase()
    const stores = await Promise.all(Array.from({ length: 4 }, () => openPostgres(url)))
    try {
      const tasks = Array.from({ length: 500 }, (_, n) => ({
        id: `task-${n}`,
        kind: 'k',
        key: `${n % 7}`,
        payload: '{}',
      }))
      const added = await Promise.all(stores.map((store, n) => store.enqueue(n % 2 === 0 ? tasks : tasks.toReversed())))
      const fresh = added.flat().filter(({ isNew }) => isNew)
      expect(fresh.map(({ id }) => id).sort()).toEqual(tasks.map(({ id }) => id).sort())
      expect(await allTasks(stores[0] as PostgresStore)).toHaveLength(tasks.length)
    } finally {
      await Promise.all(stores.map(store => store.close()))
    }
  })
})

describe('ten workers', { timeout: 300_000 }, () => {
  it('that all want the one task there is: one of them gets it', async () => {
    const scene = await Scene.on(await postgres.server.createDatabase())
    try {
      const workers = Array.from({ length: WORKERS }, () => scene.start({ leaseMs: 20_000 }))
      await Promise.all(workers.map(({ ready }) => ready))
      for (let round = 0; round < ROUNDS; round++) {
        await scene.add(dice.pick([scene.tasks.write, scene.tasks.complete]), {})
        await scene.drained()
      }
      await expectAllAccountedFor(scene)
      const reports = await Promise.all(workers.map(worker => worker.stop()))
      expect(reports.map(({ stale }) => stale)).toEqual(Array(WORKERS).fill(0))
      expect(
        scene
          .starts()
          .map(({ id }) => id)
          .sort(),
      ).toEqual([...scene.accepted.keys()].sort())
    } finally {
      await scene.close()
    }
  })
})
