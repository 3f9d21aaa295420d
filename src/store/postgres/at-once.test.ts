import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { openPostgres, type PostgresStore } from './internal.js'

/*
 * Verbs that meet others at the same tasks. A redrive reads dead letters without locking them. A waiting task is found by its
 * place in its lane or, until it is ready, by its id: a claim may make it ready or take it meanwhile.
 */

const BY = { who: 'ada', why: 'it is back' }

let pool: pg.Pool
let store: PostgresStore
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
  store = await openPostgres(pool, { listen: false })
}, 120_000)
afterAll(async () => {
  await store.close()
  await pool.end()
})

async function deadLetter(): Promise<string> {
  const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
  const tried = { outcome: { type: 'dead', reason: 'final_error' }, attempt } as const
  const [letter] = await store.enqueue([{ kind: 'work', payload: '1', tried }])
  return letter?.id ?? ''
}

/** Runs a statement in a transaction that stays open until somebody waits for it. */
async function untilAwaited<T>(text: string, values: unknown[], meanwhile: () => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query(text, values)
    const result = meanwhile()
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    await expect.poll(async () => (await pool.query(waiting)).rowCount, { timeout: 10_000 }).toBe(1)
    await client.query('COMMIT')
    return await result
  } finally {
    client.release()
  }
}

it('moves a letter whose payload is edited at the same time, with the new payload', async () => {
  const id = await deadLetter()
  const edit = `SELECT redrive.edit($1, '2', 'bob', NULL, NULL)`
  expect(await untilAwaited(edit, [id], () => store.redrive([id], BY))).toEqual([id])
  expect(await store.get(id)).toMatchObject({ status: 'waiting', payload: '2' })
  expect((await store.ledger(id)).map(({ outcome }) => outcome)).toEqual(['dead', 'edited', 'redriven'])
})

it('moves a letter once that two people redrive at the same time', async () => {
  const id = await deadLetter()
  const redrive = `SELECT redrive.redrive(ARRAY[$1::text], 'bob', NULL, NULL, NULL, NULL)`
  expect(await untilAwaited(redrive, [id], () => store.redrive([id], BY))).toEqual([])
  expect((await store.ledger(id)).map(({ outcome }) => outcome)).toEqual(['dead', 'redriven'])
})

/** Makes all tasks ready, whenever they are due. */
const MAKE_READY = 'SELECT redrive.make_due_ready(NULL, 9000000000000000)'

async function scheduled(): Promise<string> {
  const [task] = await store.enqueue([{ kind: 'work', payload: '1', runAt: Date.now() + 3_600_000 }])
  return task?.id ?? ''
}

/** The tasks in `waiting`, with the categories of the lanes that they wait in. */
const queueOf = async (id: string) =>
  (await pool.query('SELECT category FROM redrive.waiting JOIN redrive.lane ON id = lane WHERE task = $1', [id])).rows

it('cancels a task that becomes ready at the same time', async () => {
  const id = await scheduled()
  expect(await untilAwaited(MAKE_READY, [], () => store.cancel([id]))).toEqual([id])
  expect(await store.get(id)).toMatchObject({ status: 'cancelled' })
  expect(await queueOf(id)).toEqual([])
})

it('edits a task that becomes ready at the same time', async () => {
  const id = await scheduled()
  expect(await untilAwaited(MAKE_READY, [], () => store.edit(id, '2', BY))).toBe(true)
  expect(await store.get(id)).toMatchObject({ status: 'waiting', payload: '2' })
})

it('moves an item that becomes ready at the same time', async () => {
  const id = await scheduled()
  await untilAwaited(MAKE_READY, [], () => pool.query('SELECT redrive.move_items($1, $2)', [[id], 'next']))
  expect(await store.get(id)).toMatchObject({ status: 'waiting', category: 'next' })
  expect(await queueOf(id)).toEqual([{ category: 'next' }])
})

it('claims past rows whose task or lane is gone, and removes those that it finds', async () => {
  const [task] = await store.enqueue([{ kind: 'left', payload: '1' }])
  await pool.query(
    `
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
    SELECT 'gone', lane, 1, 1, 0, 0 FROM redrive.task WHERE id = $1
    UNION ALL SELECT 'gone too', 9000000000000000000, 1, 1, 0, 0`,
    [task?.id],
  )
  const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['left'] }], limit: 1, isIdle: false }
  expect((await store.claim(request)).tasks).toEqual([])
  expect((await store.claim(request)).tasks).toMatchObject([{ id: task?.id }])
  await pool.query(`DELETE FROM redrive.waiting WHERE task = 'gone too'`)
})

it('marks a task that is claimed at the same time', async () => {
  const [task] = await store.enqueue([{ kind: 'claimed', payload: '1' }])
  const id = task?.id ?? ''
  const claim = `SELECT redrive.claim('w', 60000, '[{"kinds": ["claimed"]}]', 1, false, NULL)`
  expect(await untilAwaited(claim, [], () => store.cancel([id]))).toEqual([id])
  expect(await store.get(id)).toMatchObject({ status: 'running' })
  expect(await store.cancelled('w')).toHaveLength(1)
})

it('leaves no task without its lane while idle lanes are forgotten', async () => {
  const keys = ['a', 'b', 'c']
  let day = 0
  // Only the clock of the pruning goes on, so that a lane is forgotten as soon as it may be.
  const forget = `SELECT redrive.prune('{0,0,0,0}', NULL, 0, 0, 1000, $1)`
  const prune = () => pool.query(forget, [Date.now() + ++day * 24 * 3_600_000])
  const lanes = async () =>
    (await pool.query(`SELECT key FROM redrive.lane WHERE kind = 'keyed'`)).rows.map(({ key }) => String(key))
  const addOne = async (key: string) => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      const [task] = await store.enqueueIn(client, [{ kind: 'keyed', key, payload: '1' }])
      await client.query(`SELECT pg_sleep(${Math.random() * 0.02})`)
      await client.query('COMMIT')
      return task?.id ?? ''
    } finally {
      client.release()
    }
  }
  const adders = Array.from({ length: 4 }, async () => {
    for (let n = 0; n < 15; n++) await store.cancel([await addOne(keys[Math.floor(Math.random() * 3)] ?? '')])
  })
  let isOver = false
  const pruning = Promise.all(adders).finally(() => {
    isOver = true
  })
  while (!isOver) await prune()
  await pruning

  // A transaction that has added a task keeps its lane for as long as it is open.
  await store.cancel([await addOne('a')])
  const client = await pool.connect()
  let id = ''
  try {
    await client.query('BEGIN')
    id = (await store.enqueueIn(client, [{ kind: 'keyed', key: 'a', payload: '1' }]))[0]?.id ?? ''
    for (let n = 0; n < 4; n++) await prune()
    expect(await lanes()).toContain('a')
    await client.query('COMMIT')
  } finally {
    client.release()
  }
  expect(await store.get(id)).toMatchObject({ key: 'a', status: 'waiting' })
  const lost = `SELECT FROM redrive.task WHERE NOT EXISTS (SELECT FROM redrive.lane WHERE lane.id = task.lane)`
  expect((await pool.query(lost)).rowCount).toBe(0)
  // The others stay until the transactions that were under way have ended, those of other databases as well.
  await expect.poll(async () => (await prune()) && (await lanes()), { timeout: 60_000 }).toEqual(['a'])
}, 120_000)
