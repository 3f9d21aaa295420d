import pg from 'pg'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import type { NewTask } from '../index.js'
import type { ClaimedTask, UniqueKey } from '../internal.js'
import { openPostgres } from './internal.js'
import type { PostgresStore } from './postgres-store.js'

/** Races of transactions for one key, on a real server. */

let pool: pg.Pool
let count = 0

beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase(), max: 12 })
}, 120_000)
afterAll(() => pool.end())

const KEEP: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'keep' }
const REPLACE: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'replace' }
const AFTER: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'after' }
const PENDING: UniqueKey = { key: 'a', while: 'waiting', conflict: 'keep' }

const taskOf = (unique: UniqueKey | undefined, payload = '{}'): NewTask => ({ kind: 'k', payload, unique })

async function withStore(test: (store: PostgresStore) => Promise<void>): Promise<void> {
  const store = await openPostgres(pool, { schema: `unique_${++count}`, listen: false })
  await test(store)
  await checkInvariants(store)
  await store.close()
}

/** Runs a function within a transaction, and says how that is to end. */
async function inTransaction(end: 'COMMIT' | 'ROLLBACK', work: (client: pg.PoolClient) => Promise<void>) {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await work(client)
    await client.query(end)
  } finally {
    client.release()
  }
}

const claim = (store: PostgresStore, limit = 100) =>
  store.claim({ worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit, isIdle: false })

async function claimOne(store: PostgresStore): Promise<ClaimedTask> {
  const { tasks } = await claim(store)
  const [task] = tasks
  if (task === undefined || tasks.length > 1) throw new Error(`${tasks.length} tasks were claimed.`)
  return task
}

it('of 1000 concurrent transactions that enqueue one key, half of which roll back, exactly one adds a task', async () => {
  await withStore(async store => {
    const outcomes: string[] = []
    const enqueue = (n: number) => {
      const end = n % 2 === 0 ? 'ROLLBACK' : 'COMMIT'
      return inTransaction(end, async client => {
        const [answer] = await store.enqueueIn(client, [taskOf(KEEP, String(n))])
        if (end === 'COMMIT') outcomes.push(answer?.outcome ?? '')
      })
    }
    await Promise.all(Array.from({ length: 1000 }, (_, n) => enqueue(n)))
    expect(outcomes).toHaveLength(500)
    expect(outcomes.filter(outcome => outcome === 'created')).toHaveLength(1)
    expect(await store.count({})).toMatchObject({ waiting: 1 })
    expect(Number((await claimOne(store)).payload) % 2).toBe(1)
  })
}, 120_000)

it('a task that an open transaction relies on is not started before that has committed', async () => {
  await withStore(async store => {
    await store.enqueue([taskOf(PENDING)])
    await inTransaction('COMMIT', async client => {
      expect(await store.enqueueIn(client, [taskOf(PENDING)])).toMatchObject([{ outcome: 'kept' }])
      expect((await claim(store)).tasks).toEqual([])
    })
    await claimOne(store)
  })
})

it('a transaction that waits behind a task holds up the end of that task, and of no other', async () => {
  await withStore(async store => {
    await store.enqueue([taskOf(AFTER)])
    await store.enqueue([taskOf(undefined)])
    const { tasks } = await claim(store)
    const holder = tasks.find(({ payload }) => payload === '{}' && tasks.length === 2)
    expect(holder).toBeDefined()
    const first = (await store.list({ unique: 'a' }, { limit: 1 })).items[0]?.id
    const settled: string[] = []
    const now = await store.now()
    const settle = async ({ id, token }: ClaimedTask) => {
      const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
      const [answer] = await store.settle([{ id, token, outcome: { type: 'succeeded' }, attempt }])
      if (answer?.result === 'settled') settled.push(id)
    }
    const keyed = tasks.find(({ id }) => id === first) as ClaimedTask
    const other = tasks.find(({ id }) => id !== first) as ClaimedTask
    let ending: Promise<void> | undefined
    await inTransaction('COMMIT', async client => {
      expect(await store.enqueueIn(client, [taskOf(AFTER)])).toMatchObject([{ outcome: 'queued_after' }])
      ending = settle(keyed).catch(() => {})
      await settle(other)
      expect(settled).toEqual([other.id])
    })
    await ending
    // A worker asks again.
    if (!settled.includes(keyed.id)) await settle(keyed)
    expect((await claimOne(store)).unique).toBeUndefined()
  })
})

it('tasks that replace each other while they are claimed and settled leave one that is unfinished', async () => {
  await withStore(async store => {
    let isOver = false
    const replace = async () => {
      for (let n = 0; n < 60; n++) await store.enqueue([taskOf(n % 3 === 0 ? AFTER : REPLACE, String(n))])
    }
    const work = async () => {
      while (!isOver) {
        const { tasks } = await claim(store, 1)
        const now = await store.now()
        for (const { id, token } of tasks) {
          const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
          await store.settle([{ id, token, outcome: { type: 'succeeded' }, attempt }])
        }
      }
    }
    const working = [work(), work()]
    await Promise.all([replace(), replace(), replace()])
    isOver = true
    await Promise.all(working)
    await checkInvariants(store)
    const { waiting, running, succeeded, cancelled } = await store.count({})
    expect(waiting + running).toBeLessThanOrEqual(2)
    expect(waiting + running + succeeded + cancelled).toBe(180)
  })
}, 120_000)

it('calls that ask for the same keys in other orders do not fail', async () => {
  await withStore(async store => {
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
    const tasks = keys.map(key => taskOf({ ...KEEP, key }))
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => store.enqueue(n % 2 === 0 ? tasks : [...tasks].reverse())),
    )
    expect(answers.flat().filter(({ outcome }) => outcome === 'created')).toHaveLength(20)
    const again = keys.map(key => taskOf({ ...REPLACE, key }))
    await Promise.all([store.enqueue(again), store.enqueue([...again].reverse())])
    expect(await store.count({})).toMatchObject({ waiting: 20, cancelled: 40 })
  })
})

/** A task that runs, and one that waits for its end. */
async function twins(store: PostgresStore) {
  await store.enqueue([{ ...taskOf(AFTER), id: 'first' }])
  const { id, token } = await claimOne(store)
  await store.enqueue([{ ...taskOf(AFTER), id: 'next' }])
  const now = await store.now()
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
  const settle = () => store.settle([{ id, token, outcome: { type: 'succeeded' }, attempt }])
  const keys = async () => (await pool.query(`SELECT key, task, next FROM unique_${count}.unique_key`)).rows
  const isBlocked = async () => {
    const query = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
    expect((await pool.query(query)).rows).toHaveLength(1)
  }
  const cancelNext = (client: pg.PoolClient) =>
    client.query(`SELECT unique_${count}.cancel('{next}', 'ada', 'not needed', NULL)`)
  return { settle, keys, isBlocked, cancelNext }
}

it('a key is free when the task that waited for its twin was cancelled while that ended', async () => {
  await withStore(async store => {
    const { settle, keys, isBlocked, cancelNext } = await twins(store)
    let ending: Promise<unknown> | undefined
    await inTransaction('COMMIT', async client => {
      await cancelNext(client)
      ending = settle()
      await vi.waitFor(isBlocked, 1000)
    })
    await ending
    expect(await store.count({})).toMatchObject({ succeeded: 1, cancelled: 1 })
    expect(await keys()).toEqual([])
  })
})

it('who cancels a task that waits for its twin does not wait for the end of that', async () => {
  await withStore(async store => {
    const { settle, keys, isBlocked, cancelNext } = await twins(store)
    let ending: Promise<unknown> | undefined
    await inTransaction('COMMIT', async client => {
      await client.query(`SELECT FROM unique_${count}.task WHERE id = 'next' FOR UPDATE`)
      ending = settle()
      await vi.waitFor(isBlocked, 1000)
      // Sooner than the server looks for deadlocks.
      await client.query(`ALTER FUNCTION unique_${count}.cancel SET lock_timeout = 500`)
      await cancelNext(client)
    })
    await ending
    expect(await store.count({})).toMatchObject({ succeeded: 1, cancelled: 1 })
    expect(await keys()).toEqual([])
  })
})

it('two twins that end by one call leave no key behind', async () => {
  await withStore(async store => {
    const { settle, keys } = await twins(store)
    const [first] = (await store.list({ status: 'running' }, { limit: 1 })).items
    await store.cancel(['next', first?.id ?? ''])
    await settle()
    expect(await keys()).toEqual([])
  })
})
