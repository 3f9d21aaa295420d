import { inspect } from 'node:util'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { OptionError, RetryableError } from '../../policy/index.js'
import { defineTask, TaskQueue, Worker } from '../../task/index.js'
import {
  StaleFenceError,
  StoreBusyError,
  StoreClosedError,
  StoreForbiddenError,
  StoreForeignError,
  StoreNewerError,
  StoreNotReadyError,
  StoreReadOnlyError,
  StoreUnavailableError,
} from '../contract/errors.js'
import type { NewTask } from '../contract/task.js'
import type { SqlClient } from './index.js'
import { openPostgres, type PostgresStore } from './internal.js'

let url: string
let pool: pg.Pool
beforeAll(async () => {
  url = await freshDatabase()
  pool = new pg.Pool({ connectionString: url })
  await pool.query('CREATE TABLE orders (id int PRIMARY KEY)')
}, 120_000)
afterAll(() => pool.end())

const claim = { worker: 'w', leaseMs: 30_000, rooms: [{ kinds: ['k'] }], limit: 10, isIdle: true }

describe('opening', () => {
  it('makes the tables once, however many open at once', async () => {
    const stores = await Promise.all(Array.from({ length: 10 }, () => openPostgres(url, { schema: 'ten' })))
    for (const store of stores) await store.close()
    const { rows } = await pool.query('SELECT version FROM ten.schema_version')
    expect(rows).toHaveLength(1)
  })

  it.each([
    'host=db user=ada password=hunter2',
    'ada:hunter2@db/app',
    'postgres://ada:hunter2@db:port/app',
    'mysql://ada:hunter2@db/app',
  ])('refuses %s, which is no URL of PostgreSQL, without repeating it', async text => {
    for (const opening of [openPostgres(text), openPostgres(url, { listen: text })]) {
      const error: unknown = await opening.catch((error: unknown) => error)
      expect(error).toBeInstanceOf(OptionError)
      expect(inspect(error, { showHidden: true, depth: 9 })).not.toContain('hunter2')
    }
  })

  it('leaves a schema that is not a store, or newer, as it is', async () => {
    await pool.query('CREATE SCHEMA theirs; CREATE TABLE theirs.task (id int)')
    await expect(openPostgres(url, { schema: 'theirs' })).rejects.toThrow(StoreForeignError)
    await (await openPostgres(url, { schema: 'newer' })).close()
    await pool.query('UPDATE newer.schema_version SET version = 1000, oldest = 1000')
    await expect(openPostgres(url, { schema: 'newer' })).rejects.toThrow(StoreNewerError)
  })

  it('makes nothing if it may not', async () => {
    await expect(openPostgres(url, { schema: 'absent', migrate: false })).rejects.toThrow(StoreNotReadyError)
    const { rows } = await pool.query(`SELECT FROM pg_namespace WHERE nspname = 'absent'`)
    expect(rows).toEqual([])
  })

  it('says what a role may not do', async () => {
    await pool.query('CREATE ROLE nobody_much LOGIN')
    const theirs = new URL(url)
    theirs.username = 'nobody_much'
    const opening = openPostgres(theirs.href, { schema: 'forbidden' })
    await expect(opening).rejects.toThrow(StoreForbiddenError)
    await expect(opening).rejects.toThrow('requires the privilege to create schemas')
  })

  it('fills an empty schema that was made for it, for a role that may make none', async () => {
    await pool.query('CREATE ROLE tenant LOGIN; CREATE SCHEMA given AUTHORIZATION tenant')
    const theirs = new URL(url)
    theirs.username = 'tenant'
    const store = await openPostgres(theirs.href, { schema: 'given', listen: false })
    expect(await store.enqueue([{ kind: 'k', payload: '{}' }])).toMatchObject([{ isNew: true, outcome: 'created' }])
    await store.close()
  })

  it.each(['', 'Upper', 'a b', 'a"b', "a'b", 'pg_mine', '1a', 'x'.repeat(51)])(
    'refuses the schema %j',
    async schema => {
      await expect(openPostgres(url, { schema })).rejects.toThrow(OptionError)
    },
  )

  it.each(['soon', 0, -1])('refuses the timeout %j', async timeout => {
    await expect(openPostgres(url, { timeout: timeout as '1s' })).rejects.toThrow(OptionError)
  })

  it.each([undefined, null, 5, {}])('refuses %j in place of a URL or a pool', async at => {
    await expect(openPostgres(at as never)).rejects.toThrow("'url' must be a URL or a pool of 'pg', got ")
  })

  it('refuses an option that it does not know', async () => {
    const options = { scheme: 'mine' } as object
    await expect(openPostgres(url, options)).rejects.toThrow("openPostgres() takes no 'scheme'. Did you mean 'schema'?")
  })

  it('says that a server is away, without the password', async () => {
    const away = openPostgres('postgres://ada:secret@127.0.0.1:1/none')
    await expect(away).rejects.toThrow(StoreUnavailableError)
    await expect(away).rejects.toThrow(
      "The schema 'redrive' of postgres://127.0.0.1:1/none cannot be reached (connect ECONNREFUSED 127.0.0.1:1): nothing",
    )
    await expect(away).rejects.not.toThrow('secret')
  })

  it('leaves a pool of the caller’s open', async () => {
    const store = await openPostgres(pool)
    await store.close()
    await expect(store.get('x')).rejects.toThrow(StoreClosedError)
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })
})

describe('a pool of the caller’s', () => {
  it('whose idle connections break does not end the process, though the caller listens to nothing', async () => {
    const own = new pg.Pool({ connectionString: url, application_name: 'to be cut' })
    const store = await openPostgres(own)
    await Promise.all([store.now(), store.now()])
    await pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'to be cut'")
    await vi.waitFor(() => expect(own.totalCount).toBe(0))
    expect(await store.now()).toBeGreaterThan(0)
    await store.close()
    expect(own.listenerCount('error')).toBe(0)
    await own.end()
  })
})

describe('in a transaction of the caller’s', () => {
  let store: PostgresStore
  let client: pg.PoolClient
  beforeEach(async () => {
    await pool.query('DROP SCHEMA IF EXISTS redrive CASCADE; TRUNCATE orders')
    store = await openPostgres(pool)
    client = await pool.connect()
  })
  afterEach(async () => {
    client.release()
    await store.close()
  })

  it('a row and its task are committed together, or not at all', async () => {
    await client.query('BEGIN')
    await client.query('INSERT INTO orders VALUES (1)')
    expect(await store.enqueueIn(client, [{ id: 'a', kind: 'k', payload: '{}' }])).toEqual([
      { id: 'a', isNew: true, outcome: 'created' },
    ])
    expect(await store.get('a')).toBeUndefined()
    await client.query('COMMIT')
    expect(await store.get('a')).toMatchObject({ status: 'waiting' })

    await client.query('BEGIN')
    await client.query('INSERT INTO orders VALUES (2)')
    await store.enqueueIn(client, [
      { id: 'a', kind: 'k', payload: '{}' },
      { id: 'b', kind: 'new lane', payload: '{}' },
    ])
    await client.query('ROLLBACK')
    expect(await store.get('b')).toBeUndefined()
    expect(await store.count({})).toMatchObject({ waiting: 1 })
    expect((await pool.query('SELECT id FROM orders')).rows).toEqual([{ id: 1 }])
  })

  it('any client will do that has query(text, values), rows as an array included', async () => {
    const plain: SqlClient = { query: async (text, values) => (await client.query(text, values)).rows }
    await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE')
    await store.enqueueIn(plain, [{ id: 'a', kind: 'k', payload: '{}' }])
    await client.query('COMMIT')
    const other: SqlClient = { query: async (text, values) => ({ rows: (await client.query(text, values)).rows }) }
    expect(await store.enqueueIn(other, [{ id: 'a', kind: 'k', payload: '{}' }])).toMatchObject([
      { id: 'a', isNew: false, outcome: 'kept', status: 'waiting' },
    ])
  })

  it('a task is completed with what its handler wrote, and its worker is told so', async () => {
    await store.heartbeat({ worker: 'w', leaseMs: 1000, release: '1.8.0' })
    await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    const [task] = (await store.claim(claim)).tasks
    if (task === undefined) throw new Error('nothing was claimed')
    await client.query('BEGIN')
    await client.query('INSERT INTO orders VALUES (1)')
    await store.completeIn(client, task, { result: '"done"' })
    expect(await store.get('a')).toMatchObject({ status: 'running' })
    await client.query('COMMIT')
    expect(await store.get('a')).toMatchObject({ status: 'succeeded', result: '"done"' })
    const entry = { outcome: 'succeeded', attempt: 1, worker: 'w', release: '1.8.0' }
    expect(await store.ledger('a')).toMatchObject([entry])

    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    const settlement = { id: 'a', token: task.token, outcome: { type: 'succeeded' }, attempt } as const
    expect(await store.settle([settlement])).toEqual([{ result: 'settled' }])
    expect(await store.settle([settlement])).toEqual([{ result: 'stale' }])
    expect(await store.get('a')).toMatchObject({ status: 'succeeded', result: '"done"' })
  })

  it('its worker is told so beside whatever else is settled, and nobody waits for the transaction', async () => {
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    await store.enqueue(['a', 'b', 'c'].map(id => ({ id, kind: 'k', payload: '{}' })))
    const [a, b, c] = (await store.claim({ ...claim, limit: 3 })).tasks
    if (a === undefined || b === undefined || c === undefined) throw new Error('too little was claimed')
    // The lane starts slowly after this.
    const deferred = { type: 'deferred', delayMs: 0 } as const
    expect(await store.settle([{ ...c, outcome: deferred, attempt }])).toEqual([{ result: 'settled' }])

    await client.query('BEGIN')
    await store.completeIn(client, a)
    expect(await store.settle([{ ...b, outcome: { type: 'succeeded' }, attempt }])).toEqual([{ result: 'settled' }])
    await client.query('COMMIT')

    const [again] = (await store.claim(claim)).tasks
    if (again === undefined) throw new Error('nothing was claimed')
    const settlements = [
      { ...a, outcome: { type: 'succeeded' } as const, attempt },
      { ...again, outcome: deferred, attempt },
    ]
    expect(await store.settle(settlements)).toEqual([{ result: 'settled' }, { result: 'settled' }])
  })

  it('a task that is completed so counts for the pace of a limit that its lane shares', async () => {
    await store.limit({ kind: 'k' }, { isShared: true, concurrency: 5 })
    await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    const [task] = (await store.claim(claim)).tasks
    if (task === undefined) throw new Error('nothing was claimed')
    await store.completeIn(client, task)
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    await store.settle([{ id: 'a', token: task.token, outcome: { type: 'succeeded' }, attempt }])
    const { rows } = await client.query('SELECT count FROM redrive.shared_answer')
    expect(rows).toEqual([{ count: '1' }])
  })

  it.each([
    ['an option that does not exist', { value: '1' }, "completeIn() takes no 'value'"],
    ['a result that is not JSON text', { result: 'sent' }, "'result' must be JSON text, got 'sent'."],
    ['a result that is not text', { result: 5 }, "'result'"],
  ])('a task is not completed with %s', async (_, options, message) => {
    await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    const [task] = (await store.claim(claim)).tasks
    if (task === undefined) throw new Error('nothing was claimed')
    await expect(store.completeIn(client, task, options as object)).rejects.toThrow(message)
    expect(await store.get('a')).toMatchObject({ status: 'running' })
  })

  it('a task that is somebody else’s by now is not completed', async () => {
    await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    const [task] = (await store.claim(claim)).tasks
    if (task === undefined) throw new Error('nothing was claimed')
    await store.leave('w')
    await store.claim({ ...claim, worker: 'v' })
    await client.query('BEGIN')
    await client.query('INSERT INTO orders VALUES (1)')
    await expect(store.completeIn(client, task)).rejects.toThrow(StaleFenceError)
    await client.query('ROLLBACK')
    expect((await pool.query('SELECT id FROM orders')).rows).toEqual([])
    expect(await store.get('a')).toMatchObject({ status: 'running' })
  })

  it('what ends while others are cancelled stays as it ended', async () => {
    await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    await client.query(`BEGIN; SELECT FROM redrive.task WHERE id = 'a' FOR UPDATE`)
    // It waits for 'a', and 'b' comes, runs and ends meanwhile.
    const cancelling = store.cancel(['a', 'b'])
    await new Promise(resolve => setTimeout(resolve, 50))
    await store.enqueue([{ id: 'b', kind: 'other', payload: '{}' }])
    const [task] = (await store.claim({ ...claim, rooms: [{ kinds: ['other'] }] })).tasks
    if (task === undefined) throw new Error('nothing was claimed')
    const keeper = await pool.connect()
    await keeper.query(`BEGIN; SELECT FROM redrive.waiting WHERE task = 'a' FOR UPDATE`)
    await client.query('COMMIT')
    await new Promise(resolve => setTimeout(resolve, 50))
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    expect(await store.settle([{ ...task, outcome: { type: 'succeeded' }, attempt }])).toEqual([{ result: 'settled' }])
    await keeper.query('COMMIT')
    keeper.release()

    expect(await cancelling).toEqual(['a'])
    expect(await store.get('b')).toMatchObject({ status: 'succeeded' })
    expect(await store.count({})).toMatchObject({ succeeded: 1, cancelled: 1, running: 0, waiting: 0 })
  })

  it('a worker’s handler completes its task itself', async () => {
    const order = defineTask('order', {
      handler: async ({ id }: { id: number }, task) => {
        const tx = await pool.connect()
        try {
          await tx.query('BEGIN')
          await tx.query('INSERT INTO orders VALUES ($1)', [id])
          await store.completeIn(tx, task.fence)
          await tx.query('COMMIT')
        } finally {
          tx.release()
        }
      },
    })
    const { id } = await new TaskQueue(store).enqueue(order, { id: 7 })
    const worker = new Worker(store, { tasks: [order] })
    await worker.start()
    await expect.poll(async () => (await store.get(id))?.status).toBe('succeeded')
    await worker.stop()
    expect(worker.stale).toBe(0)
    expect((await pool.query('SELECT id FROM orders')).rows).toEqual([{ id: 7 }])
  })

  it('once: key, result and rows are committed together', async () => {
    await client.query('BEGIN')
    const insert = (tx: SqlClient) => tx.query('INSERT INTO orders VALUES (1)', []).then(() => 'inserted')
    expect(await store.onceIn(client, 'order-1', insert)).toBe('inserted')
    await client.query('ROLLBACK')
    expect(await store.once('order-1', insert)).toBe('inserted')
    expect(await store.once('order-1', insert)).toBe('inserted')
    expect((await pool.query('SELECT id FROM orders')).rows).toEqual([{ id: 1 }])
  })

  it('once: who comes meanwhile waits, and gets the result', async () => {
    let calls = 0
    const slow = async (tx: SqlClient) => {
      calls++
      await tx.query('SELECT pg_sleep(0.2)', [])
      return calls
    }
    expect(await Promise.all([1, 2, 3].map(() => store.once('slow', slow)))).toEqual([1, 1, 1])
  })

  it('once: after a conflict it is done once more, of which nothing was left', async () => {
    let calls = 0
    const result = await store.once('conflict', async tx => {
      await tx.query('INSERT INTO orders VALUES ($1)', [++calls])
      if (calls < 3) throw Object.assign(new Error('could not serialize access'), { code: '40001' })
      return calls
    })
    expect(result).toBe(3)
    expect((await pool.query('SELECT id FROM orders')).rows).toEqual([{ id: 3 }])
  })

  it('once: what a transaction holds is not rescued under it', async () => {
    await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    const [task] = (await store.claim({ ...claim, leaseMs: 1 })).tasks
    const result = store.once(
      'k',
      async tx => {
        await tx.query('INSERT INTO orders VALUES (1)')
        expect(await store.heartbeat({ worker: 'other', leaseMs: 30_000 })).toMatchObject({ rescued: 0 })
      },
      { fence: task },
    )
    await result
    expect(await store.heartbeat({ worker: 'other', leaseMs: 30_000 })).toMatchObject({ rescued: 1 })
    await expect(store.once('late', () => 1, { fence: task })).rejects.toThrow(StaleFenceError)
  })
})

describe('new work', () => {
  it('from another process wakes an idle worker, by notification', async () => {
    const here = await openPostgres(url, { schema: 'signals' })
    const there = await openPostgres(url, { schema: 'signals' })
    let rung = 0
    const heard = new Promise<void>(resolve => {
      here.watch(() => {
        if (++rung === 2) resolve()
      })
    })
    // It is told once when it begins to listen.
    await expect.poll(() => rung).toBe(1)
    await there.enqueue([{ kind: 'k', payload: '{}' }])
    await heard
    await here.close()
    await there.close()
  })

  it('is noticed without notifications too, and after the listening connection was lost', async () => {
    const here = await openPostgres(url, { schema: 'signals' })
    const deaf = await openPostgres(url, { schema: 'signals', listen: false })
    let rung = 0
    let polled = 0
    here.watch(() => rung++)
    deaf.watch(() => polled++)
    await expect.poll(() => rung).toBe(1)
    await pool.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN redrive_signals%'`,
    )
    await expect.poll(() => polled, { timeout: 10_000 }).toBeGreaterThan(0)
    await expect.poll(() => rung, { timeout: 10_000 }).toBeGreaterThan(2)
    const before = rung
    await deaf.enqueue([{ kind: 'k', payload: '{}' }])
    await expect.poll(() => rung).toBeGreaterThan(before)
    await here.close()
    await deaf.close()
  })
})

it('settles many failures at once that all differ, in a call that does not time out', { timeout: 60_000 }, async () => {
  const store = await openPostgres(url, { schema: 'differing', listen: false })
  const ids = Array.from({ length: 3000 }, (_, n) => `t${n}`)
  await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '1' })))
  const { tasks, now } = await store.claim({ ...claim, limit: ids.length })
  const settlements = tasks.map(({ id, token }) => {
    const group = { id: `1-${id}`, kind: 'k', code: 'odd', errorName: 'Error', pattern: id, frames: [] }
    const verdict = { class: 'final', code: 'odd' } as const
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w', verdict, group }
    return { id, token, outcome: { type: 'dead', reason: 'final_error' } as const, attempt }
  })
  const settled = await store.settle(settlements)
  expect(settled.filter(({ result }) => result === 'settled')).toHaveLength(ids.length)
  expect((await store.groups.list({}, { limit: 5000 })).items).toHaveLength(1001)
  expect(await store.groups.get('other:k:odd')).toMatchObject({ seen: 2000, dead: 2000 })
  await store.close()
})

it('gives a kind no more groups than it may have when many processes make them at once', {
  timeout: 60_000,
}, async () => {
  const open = () => openPostgres(url, { schema: 'crowded', listen: false })
  const stores = [await open(), ...(await Promise.all(Array.from({ length: 5 }, open)))]
  const failed = (id: string, code: string): NewTask => {
    const group = { id: `1-${id}`, kind: 'k', code, errorName: 'Error', pattern: id, frames: [] }
    const attempt = {
      attempt: 1,
      startedAt: 0,
      endedAt: 1,
      worker: 'w',
      verdict: { class: 'final', code } as const,
      group,
    }
    return { id, kind: 'k', payload: '1', tried: { outcome: { type: 'dead', reason: 'final_error' }, attempt } }
  }
  const many = (name: string, count: number) =>
    Array.from({ length: count }, (_, n) => failed(`${name}-${n}`, `${name}${n}`))
  await stores[0]?.enqueue(many('before', 990))
  await Promise.all(stores.map((store, n) => store.enqueue(many(`at-once-${n}`, 9))))
  await Promise.all(stores.map((store, n) => store.enqueue(many(`later-${n}`, 60))))
  const groups = (await stores[0]?.groups.list({}, { limit: 5000 }))?.items ?? []
  expect(groups.filter(({ id }) => id.startsWith('1-'))).toHaveLength(1000)
  expect(groups.filter(({ id }) => /^other:k:./.test(id))).toHaveLength(100)
  expect(groups).toHaveLength(1101)
  expect(groups.reduce((sum, { dead }) => sum + dead, 0)).toBe(990 + 6 * 9 + 6 * 60)
  await Promise.all(stores.map(store => store.close()))
})

describe('the end of a task', () => {
  const double = defineTask('double', { handler: (n: number) => 2 * n })

  it('in another process is told to who waits for it, by notification, and to nobody else', async () => {
    const here = await openPostgres(url, { schema: 'ends' })
    const there = await openPostgres(url, { schema: 'ends' })
    const heard: string[] = []
    const witness = new pg.Client(url)
    await witness.connect()
    await witness.query('LISTEN redrive_ends_wait; LISTEN redrive_ends_done')
    witness.on('notification', ({ channel, payload = '' }) => {
      const [, ...ids] = JSON.parse(payload)
      heard.push(`${channel} ${ids.join()}`)
    })
    let rung = 0
    there.watch(() => rung++)
    await expect.poll(() => rung).toBe(1)

    const queue = new TaskQueue(here)
    const { id } = await queue.enqueue(double, 21)
    const result = queue.result(id, { task: double })
    await expect.poll(() => heard).toContain(`redrive_ends_wait ${id}`)
    const before = rung
    await queue.enqueueMany(
      double,
      Array.from({ length: 20 }, (_, payload) => ({ payload })),
    )
    // Notifications arrive in the order of their commits, so the other process has heard who waits.
    await expect.poll(() => rung).toBeGreaterThan(before)
    const worker = new Worker(there, { tasks: [double] })
    await worker.start()
    expect(await result).toBe(42)
    await expect.poll(async () => (await here.count({})).succeeded).toBe(21)
    await expect.poll(() => heard).toContain(`redrive_ends_done ${id}`)
    expect(heard.filter(line => line.startsWith('redrive_ends_done'))).toEqual([`redrive_ends_done ${id}`])
    await worker.stop()
    await witness.end()
    await here.close()
    await there.close()
  })

  it('is noticed without notifications too', async () => {
    const deaf = await openPostgres(url, { schema: 'ends', listen: false })
    const there = await openPostgres(url, { schema: 'ends', listen: false })
    const worker = new Worker(there, { tasks: [double] })
    await worker.start()
    const queue = new TaskQueue(deaf)
    const results = [1, 2, 3].map(async n => queue.result((await queue.enqueue(double, n)).id, { task: double }))
    expect(await Promise.all(results)).toEqual([2, 4, 6])
    await worker.stop()
    await deaf.close()
    await there.close()
  })
})

describe('a server that refuses for now', () => {
  const task = { kind: 'k', payload: '{}' }

  it('because it is read-only is asked again on another connection: it may be a standby by now', async () => {
    await (await openPostgres(url, { schema: 'standby' })).close()
    const own = new pg.Pool({ connectionString: url, max: 1 })
    const store = await openPostgres(own, { schema: 'standby', listen: false })
    await own.query('SET default_transaction_read_only = on')
    await expect(store.enqueue([task])).rejects.toThrow(StoreReadOnlyError)
    expect(await store.enqueue([task])).toMatchObject([{ isNew: true, outcome: 'created' }])
    await store.close()
    await own.end()
  })

  it.each([
    { setting: 'lock_timeout', error: StoreBusyError },
    { setting: 'statement_timeout', error: StoreUnavailableError },
  ])('because of a $setting says so in a way that can be retried', async ({ setting, error }) => {
    await (await openPostgres(url, { schema: setting })).close()
    const hasty = new URL(url)
    hasty.searchParams.set('options', `-c ${setting}=100ms`)
    const store = await openPostgres(hasty.href, { schema: setting })
    const client = await pool.connect()
    await client.query(`BEGIN; LOCK TABLE ${setting}.idempotency`)
    const claiming = store.idempotency.claim('k', { fingerprint: 'f', leaseMs: 1000 })
    await expect(claiming).rejects.toThrow(error)
    await expect(claiming).rejects.toThrow(RetryableError)
    await client.query('ROLLBACK')
    client.release()
    await store.close()
  })
})

it('a worker renews its lease, claims and settles while transactions have all other connections', async () => {
  const store = await openPostgres(url, { schema: 'busy' })
  let end = () => {}
  const ended = new Promise<void>(resolve => {
    end = resolve
  })
  const transactions = Array.from({ length: 10 }, () => store.transaction(() => ended))
  try {
    await store.heartbeat({ worker: 'w', leaseMs: 30_000 })
    await store.claim(claim)
    await store.settle([{ id: 'none', token: '1.1', outcome: { type: 'succeeded' } }]).catch(() => {})
    await store.leave('w')
  } finally {
    end()
    await Promise.all(transactions)
    await store.close()
  }
})

it('a store can be closed twice', async () => {
  const store = await openPostgres(url, { schema: 'closed_twice' })
  await Promise.all([store.close(), store.close()])
  await store.close()
  await expect(store.get('x')).rejects.toThrow(StoreClosedError)
})

it('a store on a pool with a password of its own listens with it', async () => {
  const { hostname: host, port, username: user, pathname } = new URL(url)
  const own = new pg.Pool({ host, port: Number(port), user, database: pathname.slice(1), password: 'a secret' })
  const store = await openPostgres(own, { schema: 'with_password' })
  const connect = vi.spyOn(pg.Client.prototype, 'connect')
  let rung = 0
  store.watch(() => rung++)
  await expect.poll(() => rung).toBe(1)
  expect(connect.mock.contexts).toMatchObject([{ password: 'a secret' }])
  connect.mockRestore()
  await store.close()
  await own.end()
})

it('a claim whose answer is still on its way is its worker’s, even if the server’s clock goes back', async () => {
  const store = await openPostgres(url, { schema: 'clock_back' })
  await store.claim(claim)
  await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
  const anHourAgo = Date.now() - 3_600_000
  const values = ['w', 7_200_000, '[{"kinds": ["k"]}]', 1, true, anHourAgo]
  await pool.query('SELECT clock_back.claim($1, $2, $3, $4, $5, $6)', values)
  await store.heartbeat({ worker: 'w', leaseMs: 30_000 })
  expect(await store.get('a')).toMatchObject({ status: 'running' })
  await store.close()
})

it('what a claim whose answer was lost has taken goes back with the next sign of life', async () => {
  const store = await openPostgres(url, { schema: 'lost_answer' })
  await store.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
  // The same call as the store's own, of which it hears nothing.
  const values = ['w', 30_000, '[{"kinds": ["k"]}]', 1, true, null]
  await pool.query('SELECT lost_answer.claim($1, $2, $3, $4, $5, $6)', values)
  expect(await store.get('a')).toMatchObject({ status: 'running' })

  expect((await store.claim(claim)).tasks).toEqual([])
  await store.heartbeat({ worker: 'w', leaseMs: 30_000 })
  expect(await store.get('a')).toMatchObject({ status: 'waiting', attempts: 0 })
  expect(await store.ledger('a')).toEqual([])
  const [task] = (await store.claim(claim)).tasks
  await store.heartbeat({ worker: 'w', leaseMs: 30_000 })
  expect(await store.get('a')).toMatchObject({ status: 'running' })
  expect(task?.id).toBe('a')
  await store.close()
})
