import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { migrateTo, nextRelease } from '../../../test/next-release.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { defineTask, TaskQueue, Worker } from '../../task/index.js'
import { taskIds } from '../rules/task-id.js'
import { openPostgres, type PostgresStore } from './internal.js'

let url = ''
let pool: pg.Pool
let store: PostgresStore
beforeAll(async () => {
  url = await freshDatabase()
  pool = new pg.Pool({ connectionString: url })
  store = await openPostgres(url, { listen: false })
})
afterAll(async () => {
  await store.close()
  await pool.end()
})

interface Answer {
  readonly id: string
  readonly is_new: boolean
  readonly outcome: string
  readonly status: string | null
  readonly since: Date | null
}

async function enqueue(args: string, values: unknown[] = []): Promise<Answer> {
  const { rows } = await pool.query<Answer>(`SELECT * FROM redrive.enqueue(${args})`, values)
  return rows[0] as Answer
}

/** The columns of a task and of what it waits in, without its id and its times. */
async function rowOf(id: string): Promise<unknown> {
  const { rows } = await pool.query(
    `SELECT to_jsonb(its) - '{id,round,submitted_at,started_at,changed_at,next_at}'::text[] AS task,
       to_jsonb(place) - '{task,submitted_at,next_at,turn}'::text[] AS waiting
     FROM redrive.task AS its JOIN redrive.waiting AS place ON place.task = its.id WHERE its.id = $1`,
    [id],
  )
  return rows[0]
}

/** A connection of a new role. Roles are those of the server, which other tests share. */
async function roleFor(use: string, grantTo?: (role: string) => Promise<void>): Promise<pg.Client> {
  const name = `${use}_${crypto.randomUUID().replaceAll('-', '')}`
  await pool.query(`CREATE ROLE ${name} LOGIN`)
  await grantTo?.(name)
  const theirs = new URL(url)
  theirs.username = name
  const client = new pg.Client({ connectionString: theirs.href })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

describe('a task that SQL enqueues', () => {
  it('has the row that the library would have written', async () => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const [ours] = await store.enqueue([
      {
        kind: 'mail',
        category: 'eu',
        key: 'acme',
        priority: 2.5,
        payload: '{"n":1}',
        cost: { calls: 2 },
        traceparent,
        submittedAt: 5_000,
      },
    ])
    const theirs = await enqueue(
      `'mail', '{"n":1}', category => 'eu', key => 'acme', priority => 2.5, cost => '{"calls":2}', traceparent => $1,
       submitted_at => '1970-01-01T00:00:05Z'`,
      [traceparent],
    )
    const [a, b] = [await store.get(ours?.id ?? ''), await store.get(theirs.id)]
    expect({ ...b, id: '' }).toEqual({
      ...a,
      id: '',
      changedAt: b?.changedAt,
      startedAt: b?.startedAt,
      nextAttemptAt: b?.nextAttemptAt,
    })
    const [row, other] = [await rowOf(theirs.id), await rowOf(ours?.id ?? '')]
    expect(JSON.parse(JSON.stringify(row).replace('{\\"calls\\": 2}', '{\\"calls\\":2}'))).toEqual(other)
  })

  it('waits until run_at, rounded up to the millisecond', async () => {
    const { id } = await enqueue(`'mail', 'null', run_at => '2100-01-01T00:00:00.123400Z'`)
    const nextAttemptAt = Date.parse('2100-01-01T00:00:00.124Z')
    expect(await store.get(id)).toMatchObject({ status: 'waiting', nextAttemptAt })
    const exact = await enqueue(`'mail', 'null', run_at => '2100-01-01T00:00:00.123Z'`)
    expect((await store.get(exact.id))?.nextAttemptAt).toBe(nextAttemptAt - 1)
  })

  it('has an id of the same form, and ids of one session are in order', async () => {
    const { rows } = await pool.query<{ id: string }>(
      `SELECT (redrive.enqueue('mail', n)).id FROM generate_series(1, 200) AS n`,
    )
    const ids = rows.map(({ id }) => id)
    expect(ids).toEqual([...ids].sort())
    expect(new Set(ids).size).toBe(200)
    for (const id of ids) expect(id).toMatch(/^[0-9a-v]{22}$/)
    const timeOf = (id: string) => Number.parseInt(id.slice(0, 9), 32)
    const now = await store.now()
    expect(timeOf(taskIds()(now))).toBe(now)
    expect(Math.abs(timeOf(ids[0] ?? '') - now)).toBeLessThan(60_000)
  })

  it('is the same one if its id is taken, and the answer says so', async () => {
    const created = { id: 'order-7', is_new: true, outcome: 'created', status: null, since: null }
    expect(await enqueue(`'mail', '1', 'order-7'`)).toEqual(created)
    const there = await store.get('order-7')
    const since = new Date(there?.changedAt ?? 0)
    const kept = { id: 'order-7', is_new: false, outcome: 'kept', status: 'waiting', since }
    expect(await enqueue(`'mail', '2', id => 'order-7'`)).toEqual(kept)
    expect(await enqueue(`'mail', 2, id => 'order-7'`)).toEqual(kept)
    expect(there?.payload).toBe('1')
  })

  it('has a unique key as the library gives it, and meets its twin', async () => {
    const key = `unique_key => 'shop', unique_while => 'unfinished'`
    const first = await enqueue(`'sync', '1', ${key}, unique_conflict => 'keep'`)
    const unique = { key: 'shop', while: 'unfinished', conflict: 'after' } as const
    expect(await enqueue(`'sync', 2, ${key}, unique_conflict => 'keep'`)).toMatchObject({
      id: first.id,
      is_new: false,
      outcome: 'kept',
      status: 'waiting',
    })
    const second = await enqueue(`'sync', '3', ${key}, unique_conflict => 'replace'`)
    expect(second).toMatchObject({ is_new: true, outcome: 'replaced', status: null })
    expect((await store.get(first.id))?.status).toBe('cancelled')
    const rooms = [{ kinds: ['sync'] }]
    const { tasks, now } = await store.claim({ worker: 'w', leaseMs: 60_000, rooms, limit: 10, isIdle: true })
    expect(tasks.map(({ id }) => id)).toEqual([second.id])
    expect(await enqueue(`'sync', '4', ${key}, unique_conflict => 'keep'`)).toMatchObject({ status: 'running' })
    const third = await enqueue(`'sync', '5', ${key}, unique_conflict => 'after'`)
    expect(third).toMatchObject({ is_new: true, outcome: 'queued_after' })
    expect(await store.enqueue([{ kind: 'sync', payload: '6', unique }])).toMatchObject([{ outcome: 'queued_after' }])
    expect((await store.get(third.id))?.status).toBe('cancelled')
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome: { type: 'succeeded' }, attempt })))
    expect(await enqueue(`'sync', '1', id => '${second.id}'`)).toMatchObject({ outcome: 'kept', status: 'succeeded' })
  })

  it('is postponed, with a longest wait, and throttled for a time', async () => {
    const wait = `unique_key => 'doc', unique_while => 'waiting', unique_conflict => 'postpone', unique_max_wait => '1 minute'`
    const first = await enqueue(`'index', '1', run_at => now() + interval '5 s', ${wait}`)
    const later = await enqueue(`'index', '2', run_at => now() + interval '1 hour', ${wait}`)
    expect(later).toMatchObject({ id: first.id, is_new: false, outcome: 'postponed', status: 'waiting' })
    const task = await store.get(first.id)
    expect(task).toMatchObject({ payload: '2', nextAttemptAt: (task?.submittedAt ?? 0) + 60_000 })
    const hourly = `unique_key => 'h', unique_while => 'within', unique_within => '1 hour', unique_conflict => 'keep'`
    expect(await enqueue(`'report', '1', ${hourly}`)).toMatchObject({ outcome: 'created' })
    expect(await enqueue(`'report', '1', ${hourly}`)).toMatchObject({ outcome: 'kept' })
  })

  it('puts its lane under a quota', async () => {
    await enqueue(`'counted', '1', key => 'repo', quota => 'acme'`)
    const ours = await store.enqueue([{ kind: 'counted', key: 'repo-2', quota: 'acme', payload: '1' }])
    expect(ours).toMatchObject([{ outcome: 'created' }])
    const { rows } = await pool.query(
      `SELECT count(DISTINCT lane.shared) AS quotas, count(*) AS lanes FROM redrive.lane
       JOIN redrive.shared_limit ON shared_limit.id = lane.shared WHERE lane.kind = 'counted' AND quota = 'acme'`,
    )
    expect(rows).toEqual([{ quotas: '1', lanes: '2' }])
  })

  it.each([
    [`'{"n": 1.10, "big": 12345678901234567890}'`, '{"n": 1.10, "big": 12345678901234567890}'],
    [`'{"n": 1.10}'::json`, '{"n": 1.10}'],
    [`'{"n":12345678901234567890.50}'::jsonb`, '{"n": 12345678901234567890.50}'],
    [`'{"n":1}'::varchar`, '{"n":1}'],
    [`json_build_object('a', 'it''s "quoted"')`, '{"a" : "it\'s \\"quoted\\""}'],
    [`row(1, 'x')`, '{"f1":1,"f2":"x"}'],
    ['ARRAY[1, 2]', '[1,2]'],
    [`'"\\ud800"'`, '"\\ud800"'],
    [`'"\\u0000"'`, '"\\u0000"'],
  ])('keeps the payload %s as it was written', async (payload, text) => {
    const { id } = await enqueue(`'mail', ${payload}`)
    expect((await store.get(id))?.payload).toBe(text)
  })

  it('takes parameters without types, as drivers send them', async () => {
    const { id } = await enqueue('$1, $2, key => $3', ['mail', '{"n":1}', 'acme'])
    expect(await store.get(id)).toMatchObject({ kind: 'mail', key: 'acme', payload: '{"n":1}' })
  })

  it('is gone if the transaction is rolled back', async () => {
    const client = await pool.connect()
    await client.query(`BEGIN; SELECT redrive.enqueue('mail', '1', 'rolled-back'); ROLLBACK`)
    client.release()
    expect(await store.get('rolled-back')).toBeUndefined()
  })

  it('keeps its place in an ordered lane', async () => {
    await store.limit({ kind: 'ordered' }, { isOrdered: true })
    const first = await enqueue(`'ordered', '1', key => 'k'`)
    const second = await enqueue(`'ordered', '2', key => 'k'`)
    const [a, b] = [await store.get(first.id), await store.get(second.id)]
    expect(a?.submittedAt).toBeLessThan(b?.submittedAt ?? 0)
  })

  it('from a trigger, is run by an idle worker, which the commit wakes', async () => {
    await pool.query(`
      CREATE TABLE orders (id int PRIMARY KEY, email text NOT NULL);
      CREATE FUNCTION order_placed() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        PERFORM redrive.enqueue('order-placed', NEW, id => 'order-' || NEW.id);
        RETURN NULL;
      END $$;
      CREATE TRIGGER order_placed AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION order_placed()`)
    const listening = await openPostgres(url)
    const placed = defineTask('order-placed', { handler: (order: { id: number; email: string }) => order.email })
    const worker = new Worker(listening, { tasks: [placed] })
    await worker.start()
    const heard: string[] = []
    const listener = new pg.Client(url)
    await listener.connect()
    listener.on('notification', ({ channel, payload }) => heard.push(`${channel}:${payload}`))
    await listener.query('LISTEN redrive_redrive')
    await pool.query(`INSERT INTO orders VALUES (1, 'ada@example.com')`)
    expect(await new TaskQueue(listening).result('order-1')).toBe('ada@example.com')
    await expect.poll(() => heard).toContain('redrive_redrive:')
    await listener.end()
    await worker.stop()
    await listening.close()
  })

  it('wakes the workers of its own schema', async () => {
    const other = await openPostgres(url, { schema: 'jobs', listen: false })
    const client = new pg.Client(url)
    await client.connect()
    const heard: string[] = []
    client.on('notification', ({ channel }) => heard.push(channel))
    await client.query('LISTEN redrive_jobs; LISTEN redrive_redrive')
    await client.query(`SELECT jobs.enqueue('mail', '1', 'in-jobs')`)
    await client.query('SELECT 1')
    expect(heard).toEqual(['redrive_jobs'])
    await client.query(`SELECT jobs.enqueue('mail', '1', 'in-jobs')`)
    await client.query('SELECT 1')
    expect(heard).toHaveLength(1)
    expect(await other.get('in-jobs')).toBeDefined()
    await client.end()
    await other.close()
  })
})

describe('what SQL cannot enqueue', () => {
  const long = 'x'.repeat(513)
  const unique = (key: string, scope: string, conflict: string) =>
    `unique_key => '${key}', unique_while => '${scope}', unique_conflict => '${conflict}'`
  it.each([
    ['a kind with spaces', `'send mail', '1'`, '22023', /kind must be 1 to 100 letters.*'send mail'/],
    ['no kind', `NULL, '1'`, '22023', /kind must be .* NULL/],
    ['a letter that JavaScript would not match', `'é', '1'`, '22023', /kind must be/],
    ['a kind with a line break at its end', `E'mail\\n', '1'`, '22023', /kind must be/],
    ['an item of a pipeline', `'pipeline:enrich', '1', key => 'run'`, '22023', /item of a pipeline/],
    ['an event', `'event:orders', '1'`, '22023', /that of an event/],
    ['text that is not JSON', `'mail', 'hello'`, '22P02', /payload is not JSON/],
    ['an empty text', `'mail', ''`, '22P02', /payload is not JSON/],
    ['NaN', `'mail', '{"n":NaN}'`, '22P02', /payload is not JSON/],
    ['NULL', `'mail', NULL`, '22023', /payload is NULL/],
    ['NULL of another type', `'mail', NULL::json`, '22023', /payload is NULL/],
    ['a payload that is too long', `'mail', to_json(repeat('x', 1048576))`, '22023', /1048578 characters/],
    ['an empty id', `'mail', '1', ''`, '22023', /id is empty/],
    ['a long id', `'mail', '1', '${long}'`, '22023', /id has 513 bytes/],
    ['a long category', `'mail', '1', category => '${long}'`, '22023', /category has 513 bytes/],
    ['a long key, in bytes', `'mail', '1', key => repeat('é', 257)`, '22023', /key has 514 bytes/],
    ['a priority of NaN', `'mail', '1', priority => 'NaN'`, '22023', /priority must be/],
    ['an infinite priority', `'mail', '1', priority => '-Infinity'`, '22023', /priority must be/],
    ['a time that never comes', `'mail', '1', run_at => 'infinity'`, '22023', /run_at and submitted_at/],
    ['a time before all others', `'mail', '1', submitted_at => '-infinity'`, '22023', /run_at and submitted_at/],
    ['a cost that is a number', `'mail', '1', cost => '2'`, '22023', /cost must be an object/],
    ['a cost below 0', `'mail', '1', cost => '{"calls":-1}'`, '22023', /cost of 'calls'/],
    ['a cost that is text', `'mail', '1', cost => '{"calls":"2"}'`, '22023', /cost of 'calls'/],
    ['a cost that JavaScript cannot hold', `'mail', '1', cost => '{"calls":1e309}'`, '22023', /cost of 'calls'/],
    ['a quota without a key', `'mail', '1', quota => 'acme'`, '22023', /quota needs a key/],
    ['an empty quota', `'mail', '1', key => 'a', quota => ''`, '22023', /quota is empty/],
    ['a scope without a unique key', `'mail', '1', unique_while => 'waiting'`, '22023', /need a unique_key/],
    ['an empty unique key', `'mail', '1', ${unique('', 'waiting', 'keep')}`, '22023', /unique_key is empty/],
    ['a long unique key', `'mail', '1', ${unique(long, 'waiting', 'keep')}`, '22023', /unique_key has 513 bytes/],
    ['no scope', `'mail', '1', unique_key => 'a', unique_conflict => 'keep'`, '22023', /unique_while must be .* NULL/],
    ['an unknown scope', `'mail', '1', ${unique('a', 'always', 'keep')}`, '22023', /unique_while must be .*'always'/],
    [
      'an unknown conflict',
      `'mail', '1', ${unique('a', 'waiting', 'behind')}`,
      '22023',
      /unique_conflict must be .*'behind'/,
    ],
    [
      'what makes no sense',
      `'mail', '1', ${unique('a', 'waiting', 'after')}`,
      '22023',
      /'waiting' cannot have .*'after'/,
    ],
    ['a time that is missing', `'mail', '1', ${unique('a', 'within', 'keep')}`, '22023', /unique_within goes with/],
    [
      'a wait that is missing',
      `'mail', '1', ${unique('a', 'waiting', 'postpone')}`,
      '22023',
      /unique_max_wait goes with/,
    ],
    [
      'a time to postpone to that is missing',
      `'mail', '1', ${unique('a', 'waiting', 'postpone')}, unique_max_wait => '1s'`,
      '22023',
      /needs a run_at/,
    ],
    [
      'no time at all',
      `'mail', '1', ${unique('a', 'within', 'keep')}, unique_within => '-1s'`,
      '22023',
      /longer than 0/,
    ],
    ['another traceparent', `'mail', '1', traceparent => '00-${'0'.repeat(32)}-x-00'`, '22023', /traceparent has/],
  ])('%s', async (_, args, code, message) => {
    const { waiting } = await store.count({})
    await expect(enqueue(args)).rejects.toMatchObject({ code, message: expect.stringMatching(message) })
    expect((await store.count({})).waiting).toBe(waiting)
  })

  it('NUL, which PostgreSQL takes in no text', async () => {
    await expect(enqueue('$1, $2', ['mail', '"\0"'])).rejects.toMatchObject({ code: '22021' })
    await expect(enqueue('$1, $2, $3', ['mail', '1', 'a\0'])).rejects.toMatchObject({ code: '22021' })
  })
})

describe('a role that may only enqueue', () => {
  it('may do that, and nothing else', async () => {
    const client = await roleFor('web', role => store.grantEnqueue(role))
    expect((await client.query(`SELECT is_new FROM redrive.enqueue('mail', '{"to":1}')`)).rows).toEqual([
      { is_new: true },
    ])
    expect((await client.query(`SELECT is_new FROM redrive.enqueue('mail', '{"to":1}'::json)`)).rowCount).toBe(1)
    for (const table of ['task', 'lane', 'waiting', 'ledger', 'attempts', 'dead_letters', 'policy'])
      await expect(client.query(`SELECT * FROM redrive.${table}`), table).rejects.toThrow(
        /permission denied|does not exist/,
      )
    const calls = [
      `enqueue_one('mail', '', '', 'x', NULL, NULL, NULL, '1', NULL, NULL, NULL)`,
      `enqueue_batch('{}', '{}', NULL)`,
      `make_lanes('[{"kind":"a","category":"","key":""}]')`,
      `lock_tasks('{a}')`,
    ]
    for (const call of calls)
      await expect(client.query(`SELECT redrive.${call}`), call).rejects.toThrow('permission denied')
  })

  it('is not one that may only read, nor everybody', async () => {
    const reader = await roleFor('viewer', role => store.grantRead(role))
    await expect(reader.query(`SELECT redrive.enqueue('mail', '1')`)).rejects.toThrow('permission denied')
    await expect(reader.query(`SELECT redrive.enqueue('mail', 1)`)).rejects.toThrow('permission denied')
    const nobody = await roleFor('nobody')
    await expect(nobody.query(`SELECT redrive.enqueue('mail', '1')`)).rejects.toThrow('permission denied')
    const app = await roleFor('app', role => store.grant(role))
    expect((await app.query(`SELECT redrive.enqueue('mail', '1')`)).rowCount).toBe(1)
    await expect(store.grantEnqueue('missing')).rejects.toThrow("The database has no role 'missing'.")
  })

  it('keeps its right when a release replaces the function, even by one with another parameter', async () => {
    const migrated = await openPostgres(url, { schema: 'next', listen: false })
    const client = await roleFor('stays', role => migrated.grantEnqueue(role))
    const next = await nextRelease()
    const functions = next.functions
      .replaceAll(
        'unique_max_wait interval DEFAULT NULL, OUT is_new',
        'unique_max_wait interval DEFAULT NULL, shade text DEFAULT NULL, OUT is_new',
      )
      .replaceAll(/(REVOKE ALL ON FUNCTION [^;]*text, interval)\)/g, '$1, text)')
    const lastFunctions = next.lastFunctions.filter(name => !name.startsWith('enqueue/'))
    await migrateTo({ ...next, functions, lastFunctions }, pool, { schema: 'next' })
    const { rows } = await client.query(`SELECT is_new FROM next.enqueue('mail', '1', shade => 'red')`)
    expect(rows).toEqual([{ is_new: true }])
    await migrated.close()
  })

  it('runs nothing of its own with the rights of the owner', async () => {
    const client = await roleFor('mallory', async role => {
      await store.grantEnqueue(role)
      await pool.query(
        `DO $$ BEGIN EXECUTE format('GRANT CREATE, TEMP ON DATABASE %I TO ${role}', current_database()); END $$`,
      )
    })
    // Types, functions, operators and tables under the names that the function uses, which the session finds first.
    await client.query(`
      CREATE SCHEMA evil;
      CREATE FUNCTION evil.take() RETURNS boolean LANGUAGE plpgsql AS $$
      BEGIN
        RAISE WARNING 'ran as %', current_user;
        RETURN true;
      END $$;
      CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (evil.take());
      CREATE DOMAIN pg_temp.json AS pg_catalog.json CHECK (evil.take());
      CREATE DOMAIN pg_temp.bytea AS pg_catalog.bytea CHECK (evil.take());
      CREATE DOMAIN pg_temp.jsonb AS pg_catalog.jsonb CHECK (evil.take());
      CREATE TYPE pg_temp.record AS (id pg_temp.text, ordered boolean);
      CREATE FUNCTION evil.length(pg_catalog.text) RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM evil.take(); RETURN 1; END';
      CREATE FUNCTION evil.coalesce(pg_catalog.text, pg_catalog.text) RETURNS pg_catalog.text LANGUAGE plpgsql
        AS 'BEGIN PERFORM evil.take(); RETURN $1; END';
      CREATE FUNCTION evil.uuid_send(uuid) RETURNS pg_catalog.bytea LANGUAGE plpgsql
        AS 'BEGIN PERFORM evil.take(); RETURN pg_catalog.uuid_send($1); END';
      CREATE FUNCTION evil.pg_notify(pg_catalog.text, pg_catalog.text) RETURNS void LANGUAGE plpgsql
        AS 'BEGIN PERFORM evil.take(); END';
      CREATE FUNCTION evil.same(pg_catalog.text, pg_catalog.text) RETURNS boolean LANGUAGE plpgsql
        AS 'BEGIN RETURN evil.take(); END';
      CREATE OPERATOR evil.= (LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text, FUNCTION = evil.same);
      CREATE TYPE evil.boxed AS ENUM ('a');
      CREATE FUNCTION evil.unbox(evil.boxed) RETURNS pg_catalog.json LANGUAGE plpgsql
        AS $$ BEGIN PERFORM evil.take(); RETURN '1'; END $$;
      CREATE CAST (evil.boxed AS pg_catalog.json) WITH FUNCTION evil.unbox(evil.boxed);
      CREATE TEMP TABLE lane (id int);
      SET search_path = pg_temp, evil, pg_catalog;
      SET standard_conforming_strings = off;
      SET transform_null_equals = on`)
    const ran: string[] = []
    client.on('notice', ({ message }) => ran.push(String(message)))
    // Called first by themselves, helpers would keep the types of their variables for the rest of the session.
    for (const call of [
      `check_payload('1')`,
      `check_kind('mail')`,
      `check_name('id', 'x')`,
      `check_cost('{"a":1}')`,
      `check_place('x', 1, NULL, NULL, NULL)`,
      'new_task_id()',
      `refuse('a', 'b')`,
      `make_lanes('[]')`,
      `last_place(1, 0)`,
      'first_round()',
      `waiting_state(true, false)`,
      `now_ms(1)`,
      `in_order(NULL, '{1}', '{t}', 1)`,
      `new_lane_id('mail', '')`,
      `shared_of('mail', '')`,
    ])
      await client.query(`SELECT redrive.${call}`).catch(() => {})
    ran.length = 0
    await client.query(`SELECT * FROM redrive.enqueue('mail'::pg_catalog.text, '{"n":1}'::pg_catalog.text, 'mallory-1',
      category => 'new lane', key => 'k', cost => '{"a":1}'::pg_catalog.jsonb)`)
    await client.query(`SELECT * FROM redrive.enqueue('mail'::pg_catalog.text, '{"n":1}'::pg_catalog.text)`)
    await client.query(`SELECT * FROM redrive.enqueue('ordered'::pg_catalog.text, '1'::pg_catalog.text, key => 'l')`)
    for (const conflict of ['keep', 'replace', 'after'])
      await client.query(`SELECT * FROM redrive.enqueue('mail'::pg_catalog.text, '1'::pg_catalog.text, key => 'l', quota => 'q',
        unique_key => 'u', unique_while => 'unfinished', unique_conflict => '${conflict}')`)
    await client
      .query(`SELECT * FROM redrive.enqueue('mail'::pg_catalog.text, 'x'::pg_catalog.text)`)
      .catch(({ code }) => expect(code).toBe('22P02'))
    await client.query(`SELECT * FROM redrive.enqueue('mail'::pg_catalog.text, 'a'::evil.boxed)`)
    // Its own cast runs, with its own rights.
    expect([...new Set(ran)]).toEqual([expect.stringMatching(/^ran as mallory_/)])
    expect(await store.get('mallory-1')).toMatchObject({ payload: '{"n":1}', category: 'new lane' })
  })
})
