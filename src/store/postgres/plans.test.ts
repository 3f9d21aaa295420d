import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import type { ClaimedTask, Outcome, Settlement } from '../contract/claim.js'
import type { KindStats } from '../contract/list.js'
import type { NewTask, TaskStatus, UniqueKey } from '../contract/task.js'
import { openPostgres, type PostgresStore } from './internal.js'

/*
 * Counts the rows that each verb reads from a store with tens of thousands of tasks in thousands of lanes. A plan that
 * reads a whole table shows in the count, however fast the machine is. All calls go over one connection, since a function
 * keeps its plan for as long as its connection lives: first with plans from when the store held a handful of tasks, then
 * with plans from its real statistics.
 */

const LANES = 3000
const LARGE: Size = { lanes: LANES, ended: 24_000, ready: 6000, scheduled: 6000 }
const SMALL: Size = { lanes: 2, ended: 20, ready: 20, scheduled: 4 }
/** Tasks per call, where a call takes several. */
const BATCH = 10
const PAGE = 100
/** More than any verb needs for its batch or page, and much less than there is of anything. */
const MAX_ROWS = 1000

/** The most tasks before one that are counted. */
const MAX_COUNTED = MAX_ROWS / 4

/** Tasks that wait in one lane: more than any verb may read. */
const BACKLOG = 10 * MAX_ROWS

/** A few for each of the tens of thousands of tasks; a walk through all of them for each lane would read a hundred times as many. */
const MAX_WAITING_ROWS = 10 * (LARGE.ended + LARGE.ready + LARGE.scheduled + BACKLOG)

interface Size {
  readonly lanes: number
  readonly ended: number
  readonly ready: number
  readonly scheduled: number
}

/** Makes ready what a verb needs, and returns the call whose reading counts. */
type Prepare = () => Call | Promise<Call>
type Call = () => Promise<unknown>

/** The connection whose plans are tested. */
let pool: pg.Pool
let store: PostgresStore
/** The others, which fill the store. */
let others: pg.Pool
let filler: PostgresStore
beforeAll(async () => {
  const connectionString = await freshDatabase()
  others = new pg.Pool({ connectionString })
  filler = await openPostgres(others, { listen: false })
  // Statistics that come by themselves would make new plans.
  await others.query(TABLES.map(table => `ALTER TABLE redrive.${table} SET (autovacuum_enabled = off)`).join(';'))
  await fill(SMALL)
  await others.query(ANALYZE)
  // As from the sixth call on: until then, a function without a setting of its own may be planned for the values of a call.
  pool = new pg.Pool({ connectionString, max: 1, options: '-c plan_cache_mode=force_generic_plan' })
  pool.on('connect', nestTransactions)
  store = await openPostgres(pool, { listen: false })
  for (const prepare of Object.values(VERBS)) await rowsRead(prepare)
  await fill(LARGE)
  await filler.enqueue(Array.from({ length: BACKLOG }, () => task('deep')))
  await filler.heartbeat({ worker: 'filler', leaseMs: 60_000 })
}, 120_000)
afterAll(async () => {
  await store.close()
  await filler.close()
  await pool.end()
  await others.end()
})

const VERBS: Readonly<Record<string, Prepare>> = {
  enqueue: () => () => store.enqueue(Array.from({ length: BATCH }, () => task('a'))),
  'enqueue of a single task': () => () => store.enqueue([task('a')]),
  'enqueue with ids of their own': () => () =>
    store.enqueue(Array.from({ length: BATCH }, (_, n) => ({ ...task('a'), id: `own-${n}` }))),
  'enqueue with the outcome of a first attempt': () => () => {
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    return store.enqueue([{ ...task('a'), tried: { outcome: RETRY, attempt } }])
  },
  'enqueue in an ordered lane': async () => {
    await store.limit({ kind: 'ordered' }, { isOrdered: true })
    await store.enqueue([task('ordered')])
    return () => store.enqueue([task('ordered')])
  },
  'open operations': () => () => store.operations.list({ isOpen: true }, { limit: PAGE }),
  'the newest operations': () => () => store.operations.list({}, { limit: 2 }),
  'prune of operations': () => () => store.prune({ auditMs: 0 }, PAGE),
  'members and counts of a batch': async () => {
    const tasks = Array.from({ length: BATCH }, () => task('deep'))
    await store.batches.fill('plans', { position: 0, tasks, isEnd: true })
    return async () => {
      await store.batches.get('plans')
      for (const status of ['waiting', 'running', 'dead', undefined] as const)
        await store.batches.members('plans', status, { limit: PAGE })
    }
  },
  'the check of a batch': async () => {
    await store.batches.fill('plans', { position: 0, tasks: [task('deep')], isEnd: true })
    return () => store.batches.check('plans')
  },
  claim: () => () => claim(['a', 'b', 'keyed']),
  'claim from one lane': () => () => claim(['a']),
  'claim of a kind that is not there': () => () => claim(['nothing']),
  'claim in several rooms': () => () => claim(['a'], ['keyed'], ['b']),
  'claim from a lane with a rate': async () => {
    await store.limit({ kind: 'a' }, { perSecond: 100 })
    return () => claim(['a'])
  },
  'claim of a task that must run alone': async () => {
    await lose()
    const request = { worker: 'v', leaseMs: 60_000, rooms: [{ kinds: ['a', 'keyed'] }], limit: 1, isIdle: true }
    return () => store.claim(request)
  },
  'settle as succeeded': settling({ type: 'succeeded' }),
  'settle as retry': settling({ type: 'retry', delayMs: 1000, isBackoff: true }),
  'settle as deferred': settling({ type: 'deferred', delayMs: 1000 }),
  'settle as dead': settling({ type: 'dead', reason: 'final_error' }),
  'expire of tasks that wait': async () => {
    const { items } = await store.list({ kind: 'a', status: 'waiting' }, { limit: BATCH })
    return () => store.lifetimes.expire(items.map(({ id, changedAt }) => ({ id, changedAt })))
  },
  'completion of tasks that wait': async () => {
    const ids = await waitingIds()
    return () => store.complete(ids, '1', BY)
  },
  'completion of dead letters': async () => {
    const ids = await endedIds('dead')
    return () => store.complete(ids, undefined, BY)
  },
  'failure by hand': async () => {
    const ids = await waitingIds()
    return () =>
      store.fail(
        ids.map(id => ({ id })),
        BY,
      )
  },
  'deletion of tasks that wait': async () => {
    const ids = await waitingIds()
    return () => store.delete(ids, BY)
  },
  'deletion of tasks that have ended': async () => {
    const ids = [...(await endedIds('succeeded')), ...(await endedIds('dead'))]
    return () => store.delete(ids, BY)
  },
  'declare of times to live': () => () => store.lifetimes.declare([{ kind: 'a', policy: 'p' }]),
  'times to live': () => () => store.lifetimes.list(),
  'settle as advanced, kept': settling({ type: 'advanced', to: 'next', value: '1', keep: true }),
  'settle as advanced, to wait': settling({ type: 'advanced', to: 'next', value: '1', keep: false }),
  'settle as advanced, to a stage with a backlog': async () => {
    await store.enqueue(Array.from({ length: BATCH }, () => ({ ...task('deep'), category: 'before' })))
    const rooms = [{ kinds: ['deep'], categories: ['before'] }]
    const { tasks } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: BATCH, isIdle: false })
    const outcome: Outcome = { type: 'advanced', to: '', value: '1', keep: true }
    return () => store.settle(tasks.map(task => settlement(task, outcome)))
  },
  'settle as advanced, repeated': async () => {
    const { tasks } = await claim(['a', 'keyed'])
    const settlements = tasks.map(task => settlement(task, { type: 'advanced', to: 'next', value: '1', keep: true }))
    await store.settle(settlements)
    return () => store.settle(settlements)
  },
  'settle as advanced, by a task that is to be cancelled': async () => {
    const { tasks } = await claim(['a', 'keyed'])
    await store.cancel(tasks.map(({ id }) => id))
    const outcome: Outcome = { type: 'advanced', to: 'next', value: '1', keep: true }
    return () => store.settle(tasks.map(task => settlement(task, outcome)))
  },
  'claim under a shared limit': async () => {
    await store.limit({ kind: 'deep' }, { isShared: true, rates: { calls: { perSecond: 5 } }, concurrency: 100 })
    return () => claim(['deep'])
  },
  'claim under a shared limit that is held': async () => {
    await store.limit({ kind: 'deep' }, { isShared: true })
    const { tasks } = await claim(['deep'])
    await store.settle(tasks.slice(0, 1).map(task => settlement(task, { type: 'deferred', delayMs: 60_000 })))
    return () => claim(['deep', 'a'])
  },
  'claim under a shared limit with idle lanes': () => () => claim([SHARED_KIND]),
  'settle under a shared limit with idle lanes': async () => {
    const { tasks } = await claim([SHARED_KIND])
    const outcome: Outcome = { type: 'advanced', to: 'b', value: '1', keep: true }
    return () => store.settle(tasks.map(task => settlement(task, outcome)))
  },
  'settle under a shared limit': async () => {
    await store.limit({ kind: 'a' }, { isShared: true, rates: { calls: { perSecond: 5 } } })
    const { tasks } = await claim(['a'])
    return () => store.settle(tasks.map(task => ({ ...settlement(task, RETRY), used: { calls: 2 } })))
  },
  complete: async () => {
    const [first] = (await claim(['a'])).tasks
    return () => store.completeIn(pool, first ?? { id: '', token: '' })
  },
  'steps of tasks that run': async () => {
    const { tasks } = await claim(['a', 'keyed'])
    const step = { name: 'charge', isDone: true, result: '1', state: '{}' }
    return () => Promise.all(tasks.map(({ id, token }) => store.recordStep({ ...step, id, token })))
  },
  'tasks that others may have locked': async () => {
    const { tasks } = await claim(['a', 'keyed'])
    return () => ask('locked_tasks', [tasks.map(({ id }) => id)])
  },
  'cancelled tasks of a worker': async () => {
    const { tasks } = await claim(['a', 'keyed'])
    await store.cancel(tasks.map(({ id }) => id))
    return () => store.cancelled('w')
  },
  leave: async () => {
    await claim(['a', 'keyed'])
    return () => store.leave('w')
  },
  'list of tasks that succeeded': () => () => store.list({ status: 'succeeded' }, { limit: PAGE }),
  'list of tasks that succeeded, second page': async () => {
    const { next } = await store.list({ status: 'succeeded' }, { limit: PAGE })
    return () => store.list({ status: 'succeeded' }, { limit: PAGE, after: next })
  },
  'list of dead tasks': () => () => store.list({ status: 'dead' }, { limit: PAGE }),
  'list of dead tasks of a kind': () => () => store.list({ status: 'dead', kind: 'keyed' }, { limit: PAGE }),
  'list of tasks that run': async () => {
    await claim(['a', 'keyed'])
    return () => store.list({ status: 'running' }, { limit: BATCH })
  },
  'list of tasks with a unique key': () => () => store.list({ unique: '5' }, { limit: BATCH }),
  'list of tasks that wait with a unique key': () => () =>
    store.list({ unique: '5', status: 'waiting' }, { limit: BATCH }),
  get: () => () => store.get(`${LARGE.ended}-1`),
  ledger: () => () => store.ledger(`${LARGE.ended}-1`),
  'standing of a task that has ended': () => () => store.standing(`${LARGE.ended}-1`, MAX_COUNTED),
  'standing of the last task of a backlog': async () => {
    const text = `SELECT task FROM redrive.waiting WHERE lane = (SELECT id FROM redrive.lane WHERE kind = 'deep' LIMIT 1)
      ORDER BY submitted_at DESC, task DESC LIMIT 1`
    const { rows } = await pool.query(text)
    return () => store.standing(rows[0]?.task ?? '', MAX_COUNTED)
  },
  'standing under a shared limit with idle lanes': async () => {
    const { tasks } = await claim([SHARED_KIND])
    return () => store.standing(tasks[0]?.id ?? '', MAX_COUNTED)
  },
  redrive: async () => {
    const { items } = await store.list({ status: 'dead' }, { limit: BATCH })
    const ids = items.map(({ id }) => id)
    return () => store.redrive(ids, { who: 'ann' })
  },
  discard: async () => {
    const { items } = await store.list({ status: 'dead' }, { limit: BATCH })
    const ids = items.map(({ id }) => id)
    return () => store.discard(ids, { who: 'ann', why: 'a duplicate' })
  },
  cancel: async () => {
    const { rows } = await pool.query('SELECT task FROM redrive.waiting LIMIT $1', [BATCH])
    return () => store.cancel(rows.map(({ task }) => task))
  },
  'a change of tasks that wait': async () => {
    const { rows } = await pool.query('SELECT task FROM redrive.waiting LIMIT $1', [BATCH])
    const ids = rows.map(({ task }) => task)
    const none = ids.map(() => null)
    return () => ask('arrange', [ids, ids.map(() => 9e12), none, none, 'rescheduled', 'ann', null, 'op-1', null])
  },
  'enqueue with a key that is taken': () => () => store.enqueue([keyed('0', 'keep'), keyed('1', 'replace')]),
  'settle with a key for which another task waits': async () => {
    const first = (await store.claim({ ...CLAIM, rooms: [{ kinds: ['unique'] }] })).tasks
    await store.enqueue(first.map(({ payload }) => keyed(payload, 'after')))
    return () => store.settle(first.map(task => settlement(task, { type: 'succeeded' })))
  },
  'tasks that are to wait for their twins': async () => {
    const { rows } = await pool.query('SELECT task FROM redrive.waiting LIMIT $1', [BATCH])
    return () => ask('queue_tasks', [rows.map(({ task }) => task)])
  },
  pause: () => () => store.pause({ kind: 'a' }, { isPaused: true }),
  limit: () => () => store.limit({ kind: 'a' }, { concurrency: 1 }),
  prune: () => () => store.prune({ endedMs: 0, deadMs: 0, keysMs: 0, auditMs: 0 }, BATCH),
  'items as succeeded, to be written out': async () => {
    const { tasks } = await claim(['pipeline:p'])
    return () => store.settle(tasks.map(task => settlement(task, { type: 'succeeded' })))
  },
  'a regroup': async () => {
    const { items } = await store.list({ group: GROUP.id }, { limit: BATCH })
    const to = { ...GROUP, id: '1-target' }
    return () => store.groups.regroup({ from: GROUP.id, moves: items.map(({ id }) => ({ task: id, to })) })
  },
  'a regroup with an heir': async () => {
    const { items } = await store.list({ group: GROUP.id }, { limit: BATCH })
    const heir = { ...GROUP, id: '1-heir' }
    return () => store.groups.regroup({ from: GROUP.id, heir, moves: items.map(({ id }) => ({ task: id, to: heir })) })
  },
  'a page of retried tasks': async () => {
    // Before all others in the order of the ledger's key.
    const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
    const tried = { outcome: { type: 'retry', delayMs: 9e9, isBackoff: true }, attempt } as const
    const ids = Array.from({ length: 2 * PAGE }, (_, n) => `!${n}`)
    await filler.enqueue(ids.map(id => ({ ...task('retried'), id, tried })))
    await filler.cancel(ids)
    return () => store.retried(0, { limit: PAGE })
  },
  'a page of the tasks of a group': () => () => store.list({ group: GROUP.id }, { limit: PAGE }),
  'a run': () => () => store.runs.get(`run-${LARGE.ended}`),
  'a page of runs': () => () => store.runs.list({}, { limit: 10 }),
  'a page of the items of a run': () => () => store.runs.items(`run-${SMALL.ended}`, { limit: PAGE }),
  'the dead items of a run': () => () => ask('dead_items', [KIND, `run-${LARGE.ended}`, 'a', null, 9e15, BATCH]),
  'the waiting items of a run': () => () => ask('waiting_items', [KIND, `run-${LARGE.ended}`, 'a', null, BATCH]),
  'the running items of a run': () => () => ask('running_items', [KIND, `run-${LARGE.ended}`]),
  'a move of items': async () => {
    const { rows } = await ask('waiting_items', [KIND, `run-${LARGE.ended}`, 'a', null, BATCH])
    return () => ask('move_items', [rows[0].answer, 'b'])
  },
  'tasks that have not ended': async () => {
    const { rows } = await pool.query('SELECT task FROM redrive.waiting LIMIT $1', [BATCH])
    return () => ask('unfinished_tasks', [rows.map(({ task }) => task)])
  },
  'the end of a pause': () => () => ask('end_pause', [KIND, `run-${LARGE.ended}`]),
  'a prune of runs': async () => {
    await pool.query('UPDATE redrive.run SET ended_at = 0')
    return () => ask('prune_runs', [0, 0, BATCH, null])
  },
  'claim of an idempotency key': () => () => store.idempotency.claim('key', { fingerprint: 'f', leaseMs: 1000 }),
}

/** These look at every lane, and at nothing else of which there is much. */
const LANE_VERBS: Readonly<Record<string, Prepare>> = {
  stats: () => () => ask('stats', [MAX_ROWS / 2, null]),
  'prune of tasks of which there are too many': () => () => store.prune({ counts: { succeeded: 10, dead: 10 } }, BATCH),
  heartbeat: async () => {
    await claim(['a', 'keyed'])
    return () => store.heartbeat({ worker: 'w', leaseMs: 60_000 })
  },
  'rescue from a dead worker': async () => {
    await claim(['a', 'keyed'])
    await pool.query('UPDATE redrive.worker SET until = 0')
    return () => store.heartbeat({ worker: 'v', leaseMs: 60_000 })
  },
}

/** These look at every task that waits, since no index has the order of their changes: at each of them a few times. */
const WAITING_VERBS: Readonly<Record<string, Prepare>> = {
  'list of tasks that wait': () => () => store.list({ status: 'waiting' }, { limit: BATCH }),
  'list of tasks that wait, second page': async () => {
    const { next } = await store.list({ status: 'waiting' }, { limit: BATCH })
    return () => store.list({ status: 'waiting' }, { limit: BATCH, after: next })
  },
  'list of tasks that wait of a kind': () => () => store.list({ status: 'waiting', kind: 'a' }, { limit: BATCH }),
  'list of tasks that wait in a lane': () => () =>
    store.list({ status: 'waiting', kind: 'keyed', key: '17' }, { limit: BATCH }),
  'list of tasks that wait with an error': () => () =>
    store.list({ status: 'waiting', errorCode: 'x' }, { limit: BATCH }),
  'list of tasks that wait, by payload': () => () =>
    store.list({ status: 'waiting', where: { a: 1 } }, { limit: BATCH }),
  'list of tasks in any status': () => () => store.list({}, { limit: BATCH }),
  'list of tasks in any status, second page': async () => {
    const { next } = await store.list({}, { limit: BATCH })
    return () => store.list({}, { limit: BATCH, after: next })
  },
  'list of tasks in any status, by payload': () => () => store.list({ where: { a: 1 } }, { limit: BATCH }),
  'count of tasks that wait by error': () => () => store.countBy({ status: 'waiting' }, ['kind', 'errorCode']),
}

/** The group of thousands of dead letters. */
const GROUP = { id: '1-group', kind: 'a', code: 'E', errorName: 'Error', pattern: 'broken', frames: [] }

const KIND = 'pipeline:p'
/** A pipeline with a rate, and with the lanes of many runs that have ended. */
const SHARED_KIND = 'pipeline:shared'

/** Calls a function that is part of a longer transaction. */
function ask(fn: string, values: unknown[]) {
  return pool.query(`SELECT redrive.${fn}(${values.map((_, index) => `$${index + 1}`)}) AS answer`, values)
}

const RETRY: Outcome = { type: 'retry', delayMs: 1000, isBackoff: true }

function task(kind: string): NewTask {
  return { kind, payload: '{}' }
}

/** A task with a unique key, which its payload repeats. */
function keyed(key: string, conflict: UniqueKey['conflict']): NewTask {
  return { kind: 'unique', payload: key, unique: { key, while: 'unfinished', conflict } }
}

const BY = { who: 'ann', why: 'a duplicate' }

/** The ids of a few tasks that wait. */
async function waitingIds(): Promise<string[]> {
  const { rows } = await pool.query('SELECT task FROM redrive.waiting LIMIT $1', [BATCH])
  return rows.map(({ task }) => task)
}

/** The ids of a few tasks that have ended. */
async function endedIds(status: TaskStatus): Promise<string[]> {
  const { items } = await store.list({ status }, { limit: BATCH })
  return items.map(({ id }) => id)
}

const CLAIM = { worker: 'w', leaseMs: 60_000, limit: BATCH, isIdle: false }

function claim(...rooms: string[][]) {
  return store.claim({ ...CLAIM, rooms: rooms.map(kinds => ({ kinds })) })
}

function settlement({ id, token }: ClaimedTask, outcome: Outcome): Settlement {
  return { id, token, outcome, attempt: { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' } }
}

function settling(outcome: Outcome): Prepare {
  return async () => {
    const { tasks } = await claim(['a', 'keyed'])
    return () => store.settle(tasks.map(task => settlement(task, outcome)))
  }
}

/** Lets a worker die with a few tasks, and somebody rescue them. */
async function lose(): Promise<void> {
  await claim(['a', 'keyed'])
  await pool.query('UPDATE redrive.worker SET until = 0')
  await store.heartbeat({ worker: 'v', leaseMs: 60_000 })
}

let isMeasuring = false

/** Transactions of the store become parts of the one in which a call is measured, since that is undone. */
function nestTransactions(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown
  const nested = (text: string) => {
    if (!isMeasuring) return text
    if (text === 'COMMIT') return 'RELEASE verb'
    if (text === 'ROLLBACK') return 'ROLLBACK TO verb'
    return text.replace(/^BEGIN;/, 'SAVEPOINT verb;')
  }
  const nest = (asked: string | { readonly text: string }) =>
    typeof asked === 'string' ? nested(asked) : { ...asked, text: nested(asked.text) }
  const send = (asked: string | { readonly text: string }, ...rest: unknown[]) => query(nest(asked), ...rest)
  client.query = send as typeof client.query
}

/** The number of rows and index entries that a call reads. Undoes it afterwards. */
async function rowsRead(prepare: Prepare): Promise<number> {
  await pool.query('BEGIN')
  isMeasuring = true
  try {
    const call = await prepare()
    const before = await read()
    await call()
    return (await read()) - before
  } finally {
    isMeasuring = false
    await pool.query('ROLLBACK')
  }
}

/** The rows that this transaction has read so far. Counts per lane are left out: they are summed up, whatever the plan. */
async function read(): Promise<number> {
  const { rows } = await pool.query(`
    SELECT sum(pg_stat_get_xact_tuples_returned(oid))::int AS read FROM pg_class
    WHERE relnamespace = 'redrive'::regnamespace AND relkind IN ('r', 'i') AND relname NOT LIKE 'tally%'`)
  return rows[0].read
}

const TABLES = [
  ...['task', 'waiting', 'lane', 'ended', 'tally', 'claim', 'ledger', 'worker'],
  ...['run', 'run_item', 'run_output', 'pause_rule', 'limit_rule', 'record', 'unique_key'],
]
const ANALYZE = `ANALYZE ${TABLES.map(table => `redrive.${table}`).join(', ')}`

async function fill({ lanes, ended, ready, scheduled }: Size): Promise<void> {
  const tasks = Array.from({ length: ended + ready + scheduled }, (_, n) => {
    const lane = n % (lanes + 2)
    const kind = ['a', 'b'][lane] ?? 'keyed'
    const runAt = n < ended + ready ? undefined : Date.now() + 3_600_000
    return { id: `${ended}-${n}`, kind, key: kind === 'keyed' ? `${lane}` : '', payload: '{}', runAt }
  })
  await filler.enqueue(tasks)
  const rooms = [{ kinds: ['a', 'b', 'keyed'] }]
  for (let done = 0; done < ended; ) {
    const { tasks } = await filler.claim({ worker: 'filler', leaseMs: 60_000, rooms, limit: 500, isIdle: false })
    const mine = tasks.slice(0, ended - done)
    for (let n = 0; n < mine.length; n += 2 * BATCH) {
      const outcome: Outcome = n % (4 * BATCH) === 0 ? { type: 'succeeded' } : { type: 'dead', reason: 'final_error' }
      await filler.settle(mine.slice(n, n + 2 * BATCH).map(task => settlement(task, outcome)))
    }
    await filler.settle(tasks.slice(mine.length).map(task => settlement(task, { type: 'released' })))
    done += mine.length
  }
  await fillGroup(Math.ceil(ended / 8))
  await fillRun(`run-${ended}`, ready)
  await fillShared(lanes)
  await fillOperations(lanes)
  await fillKeys(ready)
}

/** Operations that are over, and two that are open. */
async function fillOperations(count: number): Promise<void> {
  const ids = Array.from({ length: count }, (_, n) => ({
    type: 'operation',
    id: `op-${n}`,
    place: n,
    open: 0,
    state: '{}',
  }))
  await filler.importRows('record', ids)
  for (let n = 0; n < 2; n++)
    await filler.operations.create({ act: 'redrive', set: { ids: ['a'] }, by: { who: 'ada', why: 'fixed' } })
}

/** Tasks that have a unique key each. */
async function fillKeys(count: number): Promise<void> {
  await filler.enqueue(Array.from({ length: count }, (_, n) => keyed(`${n}`, 'keep')))
}

/** Dead letters of one group. */
async function fillGroup(count: number): Promise<void> {
  const verdict = { class: 'final', code: 'E' } as const
  const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w', verdict, error: 'Error: broken', group: GROUP }
  const tried = { outcome: { type: 'dead', reason: 'final_error' }, attempt } as const
  await filler.enqueue(Array.from({ length: count }, () => ({ ...task('grouped'), tried })))
}

/** Lanes that share a limit, of which one has ready tasks: every claim has to know when the next of them may start. */
async function fillShared(lanes: number): Promise<void> {
  await filler.limit({ kind: SHARED_KIND }, { isShared: true, rates: { calls: { perSecond: 5 } } })
  const idle = Array.from({ length: lanes }, (_, n) => ({ kind: SHARED_KIND, category: 'a', key: `ended-${n}` }))
  await others.query('SELECT redrive.make_lanes($1)', [JSON.stringify(idle)])
  await filler.enqueue(Array.from({ length: PAGE }, () => ({ ...task(SHARED_KIND), category: 'a', key: 'open' })))
}

/** A run of which half the items are dead. */
async function fillRun(id: string, count: number): Promise<void> {
  const settings = {
    ...{ failureBudget: 1, stageBudgets: {}, checkInterval: 1000, budgetWindow: undefined },
    ...{ completedFrom: 0.95, partialFrom: 0.5, maxUnfinished: 1000, concurrency: {} },
  }
  await filler.runs.open({ id, pipeline: 'p', version: '1', stages: ['a', 'b'], settings, hasOutput: true })
  const items = Array.from({ length: count }, () => ({ payload: '1' }))
  await filler.runs.take(id, { reader: 'r', leaseMs: 60_000, position: 0, items, isEnd: true })
  for (let done = 0; done < count / 2; done += BATCH) {
    const rooms = [{ kinds: [KIND] }]
    const { tasks } = await filler.claim({ worker: 'filler', leaseMs: 60_000, rooms, limit: BATCH, isIdle: false })
    await filler.settle(tasks.map(task => settlement(task, { type: 'dead', reason: 'final_error' })))
  }
}

const SITUATIONS: Readonly<Record<string, () => Promise<unknown>>> = {
  'with plans from when the store was small': async () => {},
  'with plans from its statistics': () => pool.query(ANALYZE),
}

describe.each(Object.entries(SITUATIONS))('a verb reads no more than it needs, %s', (_, arrive) => {
  beforeAll(arrive)

  // Calls pass over the index entries of tasks that are gone, until one marks them. None can while another session has a
  // snapshot from before, such as one that gathers statistics. A bad plan stays bad, however often it is asked.
  it.each(Object.entries(VERBS))('%s', async (_, prepare) => {
    await expect.poll(() => rowsRead(prepare)).toBeLessThan(MAX_ROWS)
  })

  it.each(Object.entries(LANE_VERBS))('%s', async (_, prepare) => {
    await expect.poll(() => rowsRead(prepare)).toBeLessThan(MAX_ROWS + 2 * LANES)
  })

  it.each(Object.entries(WAITING_VERBS))('%s', async (_, prepare) => {
    await expect.poll(() => rowsRead(prepare)).toBeLessThan(MAX_WAITING_ROWS)
  })
})

it('the ready tasks that `stats` looks at are shared among kinds: many lanes of one do not hide a backlog of another', async () => {
  const { rows } = await ask('stats', [MAX_ROWS, null])
  const kinds: KindStats[] = JSON.parse(rows[0].answer).kinds
  const [deep, keyed] = ['deep', 'keyed'].map(kind => kinds.find(stats => stats.kind === kind))
  expect(deep?.waiting).toBe(BACKLOG)
  expect(deep?.ready).toBe(Math.floor(MAX_ROWS / kinds.filter(({ ready }) => ready > 0).length))
  expect(keyed?.ready).toBeGreaterThan(0)
})
