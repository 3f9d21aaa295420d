import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import type { ClaimedTask, Outcome } from '../contract/claim.js'
import { openPostgres, type PostgresStore } from './internal.js'

const WORKER = { worker: 'w', leaseMs: 60_000 }
const DEFERRED: Outcome = { type: 'deferred', delayMs: 60_000 }
const REFUSED = { code: 'http_429', class: 'rate_limited' } as const

let pool: pg.Pool
let store: PostgresStore
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
})
beforeEach(async () => {
  await pool.query('DROP SCHEMA IF EXISTS redrive CASCADE')
  store = await openPostgres(pool, { listen: false })
  await store.limit({ kind: 'k' }, { isShared: true })
  await store.enqueue(Array.from({ length: 5 }, (_, n) => ({ id: `t${n}`, kind: 'k', payload: '{}' })))
  return () => store.close()
})
afterAll(() => pool.end())

it('a refusal holds its limit although nothing could be learned from it, and the next one makes up for that', async () => {
  const [first, ...others] = await claimed(3)
  await pool.query('ALTER FUNCTION redrive.take_refused() RENAME TO gone')
  expect(await settle(first, DEFERRED)).toEqual([{ result: 'settled' }])
  expect(await lane()).toMatchObject({ heldUntil: expect.any(Number), heldBy: first?.id, shared: { limits: {} } })
  expect((await lane())?.shared?.pace).toBeUndefined()
  expect((await store.claim({ ...WORKER, limit: 1, rooms: [{ kinds: ['k'] }], isIdle: true })).tasks).toEqual([])

  await pool.query('ALTER FUNCTION redrive.gone() RENAME TO take_refused')
  await settle(others[0], { type: 'succeeded' })
  expect((await lane())?.shared?.pace).toBeUndefined()
  await settle(others[1], DEFERRED)
  expect((await lane())?.shared?.pace).toBeGreaterThan(0)
  const { rows } = await pool.query(
    "SELECT state::json -> 'refusals' AS refusals, state::json -> 'pace' -> 'refused' AS refused FROM redrive.shared_limit",
  )
  expect(rows).toEqual([{ refusals: null, refused: 2 }])
})

it('answers that nobody asks for are added up, those of the last seconds apart', async () => {
  const now = 1_700_000_000_000
  const { rows } = await pool.query('SELECT id FROM redrive.shared_limit')
  const answers = Array.from({ length: 200 }, (_, n) => now / 1000 - n)
  await pool.query(
    'INSERT INTO redrive.shared_answer (shared, second, count) SELECT $1, second, 2 FROM unnest($2::bigint[]) AS second',
    [rows[0]?.id, answers],
  )
  await pool.query('SELECT redrive.fold_answers($1)', [now])
  const { rows: left } = await pool.query(
    'SELECT $1 - second AS ago, count FROM redrive.shared_answer ORDER BY second DESC',
    [now / 1000],
  )
  expect(left).toEqual([
    { ago: '0', count: '2' },
    { ago: '1', count: '2' },
    { ago: '2', count: '396' },
  ])
})

async function claimed(slots: number): Promise<readonly ClaimedTask[]> {
  return (await store.claim({ ...WORKER, limit: slots, rooms: [{ kinds: ['k'] }], isIdle: true })).tasks
}

function settle(task: ClaimedTask | undefined, outcome: Outcome) {
  if (task === undefined) throw new Error('nothing was claimed')
  const verdict = outcome.type === 'deferred' ? { verdict: REFUSED } : {}
  const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w', ...verdict }
  return store.settle([{ id: task.id, token: task.token, outcome, attempt }])
}

async function lane() {
  return (await store.lanes())[0]
}
