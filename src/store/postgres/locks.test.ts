import pg from 'pg'
import { expect, it, onTestFinished, vi } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { type NetworkProxy, startProxy } from '../../../test/services/proxy.js'
import { defineTask, TaskQueue, Worker } from '../../task/index.js'
import { StoreBusyError, StoreUnavailableError } from '../contract/errors.js'
import type { PostgresOptions } from './index.js'
import { openPostgres, type PostgresStore } from './internal.js'

const CLAIM = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 10, isIdle: true }
const SUCCEEDED = {
  outcome: { type: 'succeeded' },
  attempt: { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' },
} as const
const FAILED = {
  outcome: { type: 'dead', reason: 'final_error' },
  attempt: { ...SUCCEEDED.attempt, verdict: { class: 'final', code: 'E' }, error: 'down' },
} as const

let url = ''
async function open(options?: PostgresOptions): Promise<PostgresStore> {
  url = await freshDatabase()
  const store = await openPostgres(url, { listen: false, ...options })
  onTestFinished(() => store.close())
  await (await connect()).query(IMPATIENT)
  return store
}

/** Lets functions give up on locks sooner. */
const IMPATIENT = `
  DO $$ DECLARE verb regprocedure; BEGIN
    FOR verb IN SELECT oid FROM pg_proc
      WHERE pronamespace = 'redrive'::regnamespace AND proconfig && ARRAY['lock_timeout=2s', 'lock_timeout=10s']
    LOOP EXECUTE format('ALTER FUNCTION %s SET lock_timeout = 50', verb); END LOOP;
  END $$`

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'billing' })
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

async function claimed(store: PostgresStore, ids: readonly string[]) {
  await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}' })))
  return (await store.claim(CLAIM)).tasks
}

it.for([
  ['plain successes', SUCCEEDED],
  ['failures', FAILED],
] as const)('settles the others of a batch of %s, and names who holds the one that is locked', async ([, end]) => {
  const store = await open()
  const tasks = await claimed(store, ['a', 'b', 'c'])
  const handler = await connect()
  await handler.query('BEGIN')
  const [fence = { id: '', token: '' }] = tasks
  await store.completeIn(handler, fence)

  const settlements = tasks.map(task => ({ ...task, ...end }))
  const [first, ...others] = await store.settle(settlements)
  expect(others).toEqual([{ result: 'settled' }, { result: 'settled' }])
  const failure = first?.result === 'locked' ? first.failure : undefined
  expect(failure).toBeInstanceOf(StoreBusyError)
  expect(failure?.message).toMatch(/The task 'a' is locked by process \d+ .*'billing'.*idle in transaction, since 2/)
  expect(await store.settle(settlements.slice(0, 1))).toMatchObject([{ result: 'locked' }])

  await handler.query('ROLLBACK')
  expect(await store.settle(settlements.slice(0, 1))).toEqual([{ result: 'settled' }])
})

it('a worker goes on while a handler’s transaction holds its task past its timeout, and stops all the same', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const store = await open()
  const handler = await connect()
  const hung = defineTask('hung', {
    policy: { attempts: 1, timeout: '50ms' },
    handler: async (_: object, task) => {
      await handler.query('BEGIN')
      await store.completeIn(handler, task.fence)
      await new Promise(resolve => task.signal.addEventListener('abort', resolve))
    },
  })
  const quick = defineTask('quick', { handler: async () => {} })
  const worker = new Worker(store, { tasks: [hung, quick], concurrency: 4 })
  await worker.start()
  const queue = new TaskQueue(store)
  const { id } = await queue.enqueue(hung, {})
  await expect.poll(() => warned.mock.calls.length, { timeout: 15_000 }).toBeGreaterThan(0)
  expect(String(warned.mock.calls[0]?.[0])).toContain(`The task '${id}' is locked by process`)
  const others = await Promise.all(Array.from({ length: 20 }, () => queue.enqueue(quick, {})))
  for (const { id } of others) await queue.result(id)
  await worker.stop()
  expect((await store.get(id))?.status).toBe('running')
  await handler.query('ROLLBACK')
}, 30_000)

it('records the steps of other tasks while a transaction holds one, without waiting for it twice', async () => {
  const store = await open()
  const tasks = await claimed(store, ['a', 'b', 'c'])
  const handler = await connect()
  await handler.query('BEGIN')
  await store.completeIn(handler, tasks[0] ?? { id: '', token: '' })

  const record = (name: string) => {
    const step = { name, isDone: true, result: '1', state: '{}' }
    return Promise.allSettled(tasks.map(({ id, token }) => store.recordStep({ ...step, id, token })))
  }
  const recorded = { status: 'fulfilled', value: true }
  const locked = { message: expect.stringMatching(/The task 'a' is locked by process \d+ .*'billing'/) }
  expect(await record('first')).toEqual([
    { status: 'rejected', reason: expect.objectContaining(locked) },
    recorded,
    recorded,
  ])
  await (await connect()).query(`ALTER FUNCTION redrive.record_steps(json, bigint) SET lock_timeout = '1h'`)
  expect(await record('second')).toMatchObject([{ status: 'rejected', reason: locked }, recorded, recorded])

  await handler.query('ROLLBACK')
  expect(await record('third')).toEqual([recorded, recorded, recorded])
})

it('a step waits while its own handler’s transaction holds its task, which is no outage', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const store = await open()
  const handler = await connect()
  const onOutage = vi.fn()
  const task = defineTask('t', {
    handler: async (_: object, task) => {
      await handler.query('BEGIN')
      await store.completeIn(handler, task.fence)
      const step = task.step('charge', () => 'ch_1')
      await vi.waitFor(() => expect(warned).toHaveBeenCalled(), { timeout: 15_000 })
      await handler.query('ROLLBACK')
      return step
    },
  })
  const worker = new Worker(store, { tasks: [task], onOutage })
  await worker.start()
  const queue = new TaskQueue(store)
  const { id } = await queue.enqueue(task, {})
  expect(await queue.result(id)).toBe('ch_1')
  expect(String(warned.mock.calls[0]?.[0])).toMatch(
    new RegExp(
      `^The step 'charge' of the task '${id}' cannot be recorded yet.*'${id}' is locked by process .*'billing'`,
    ),
  )
  expect(onOutage).not.toHaveBeenCalled()
  await worker.stop()
}, 30_000)

it('cancels the others while a transaction holds one, and says who holds it when that is the only one', async () => {
  const store = await open()
  const [fence = { id: '', token: '' }] = await claimed(store, ['a', 'b'])
  const handler = await connect()
  await handler.query('BEGIN')
  await store.completeIn(handler, fence)
  expect(await store.cancel(['a', 'b'])).toEqual(['b'])
  await expect(store.cancel(['a'])).rejects.toThrow(/is locked by process \d+ .*'billing'/)
  await handler.query('ROLLBACK')
})

it('an open transaction that has created a lane keeps nobody from changing the rules of other kinds', async () => {
  const store = await open()
  const client = await connect()
  await client.query('BEGIN')
  await store.enqueueIn(client, [{ kind: 'new', key: 'tenant', payload: '{}' }])
  await store.pause({ kind: 'other' }, { isPaused: true, who: 'ops', why: 'test' })
  await store.limit({ kind: 'other' }, { concurrency: 1 })
  await store.enqueue([{ kind: 'other', key: 'tenant', payload: '{}' }])
  await expect(store.pause({ kind: 'new' }, { isPaused: true })).rejects.toThrow(/locked by process \d+ .*'billing'/)
  const same = store.enqueue([{ kind: 'new', key: 'tenant', payload: '{}' }])
  await expect(same).rejects.toThrow(/locked by process \d+ .*'billing'/)
  await client.query('COMMIT')
})

it('names who holds the key of a `once`, and a lock that work within a transaction waits for', async () => {
  const store = await open({ timeout: '300ms' })
  const holder = await connect()
  await holder.query('BEGIN')
  await store.onceIn(holder, 'k', () => 1)
  await store.enqueueIn(holder, [{ id: 'own', kind: 'k', payload: '{}' }])
  const busy = { code: 'store_busy', message: expect.stringMatching(/is locked by process \d+ .*'billing'/) }
  await expect(store.once('k', () => 2)).rejects.toMatchObject(busy)
  const client = await connect()
  await client.query('BEGIN')
  await expect(store.enqueueIn(client, [{ id: 'own', kind: 'k', payload: '{}' }])).rejects.toMatchObject(busy)
  await client.query('ROLLBACK')
  await holder.query('COMMIT')
  expect(await store.once('k', () => 2)).toBe(1)
})

it('does not wait for ever for a key that a transaction holds', async () => {
  const store = await open()
  const claim = await store.idempotency.claim('k', { fingerprint: 'f', leaseMs: 60_000 })
  const token = claim.state === 'fresh' ? claim.token : ''
  const holder = await connect()
  await holder.query(`BEGIN; SELECT FROM redrive.idempotency WHERE key = 'k' FOR UPDATE`)
  const named = /is locked by process \d+ .*'billing'/
  await expect(store.idempotency.renew('k', token, 1000)).rejects.toThrow(named)
  await expect(store.idempotency.complete('k', token, '1')).rejects.toThrow(named)
  await expect(store.idempotency.release('k', token)).rejects.toThrow(named)
  await expect(store.idempotency.clear('k')).rejects.toThrow(named)
  await holder.query('ROLLBACK')
})

it('ends on the server what it gives up on', async () => {
  const store = await open({ timeout: '300ms' })
  const client = await connect()
  await client.query('BEGIN; LOCK TABLE redrive.idempotency')
  const claiming = store.idempotency.claim('k', { fingerprint: 'f', leaseMs: 1000 })
  await expect(claiming).rejects.toThrow(StoreUnavailableError)
  const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  await expect.poll(async () => (await client.query(waiting)).rowCount).toBe(0)
  await client.query('ROLLBACK')
})

async function throughProxy(): Promise<{ store: PostgresStore; proxy: NetworkProxy }> {
  url = await freshDatabase()
  const proxy = await startProxy(url)
  onTestFinished(() => proxy.close())
  return { store: await openPostgres(proxy.through(url), { timeout: '100ms' }), proxy }
}

it('settles `once` on a half-open connection, gives its connections back, and closes', async () => {
  const { store, proxy } = await throughProxy()
  const hung = Array.from({ length: 5 }, (_, n) =>
    store.once(`k${n}`, async (tx: pg.PoolClient) => {
      proxy.blackHole()
      await tx.query('SELECT 1')
    }),
  )
  for (const { status } of await Promise.allSettled(hung)) expect(status).toBe('rejected')
  proxy.repair()
  // A new connection may take longer than the 100 ms on a busy machine.
  await expect.poll(() => store.once('again', () => 'done').catch(String)).toBe('done')
  await store.close()
})

it('closes while a function within a transaction hangs, and refuses it', async () => {
  const { store } = await throughProxy()
  const hung = store.transaction(() => new Promise(() => {}))
  const refused = expect(hung).rejects.toMatchObject({ code: 'store_closed' })
  await store.close()
  await refused
})

it('closes over a network that is half open', async () => {
  const { store, proxy } = await throughProxy()
  store.watch(() => {})
  await store.enqueue([{ kind: 'k', payload: '{}' }])
  proxy.blackHole()
  const lost = Promise.allSettled([
    store.enqueue([{ kind: 'k', payload: '{}' }]),
    store.claim(CLAIM),
    store.transaction(tx => tx.query('SELECT 1')),
  ])
  await store.close()
  for (const { status } of await lost) expect(status).toBe('rejected')
})
