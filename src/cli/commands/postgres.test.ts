import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { beforeAll, expect, it } from 'vitest'
import { runCommand } from '../../../test/command.js'
import { deadLetters } from '../../../test/dead-letters.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { openPostgres } from '../../store/postgres/internal.js'

import { defineTask, TaskQueue } from '../../task/index.js'

let url: string
beforeAll(async () => {
  url = await freshDatabase()
}, 120_000)

async function query(sql: string): Promise<pg.QueryResult> {
  const client = new pg.Client(url)
  await client.connect()
  return client.query(sql).finally(() => client.end())
}

const say = async (sql: string) => void (await query(sql))

const redrive = (...argv: string[]) => runCommand(argv)

it('reads a store of PostgreSQL, which it does not make by looking', async () => {
  const missing = await redrive('task', 'ls', '--store', url)
  expect(missing.code).toBe(1)
  expect(missing.err).toContain("is not there yet. Run 'redrive migrate'")

  expect(await redrive('migrate', '--store', url)).toMatchObject({ code: 0, err: 'The store is ready.\n' })
  const store = await openPostgres(url)
  const email = defineTask('send-email', { handler: (_: { to: string }) => {} })
  await new TaskQueue(store).enqueue(email, { to: 'ada' }, { id: 'mail-1' })
  await store.close()
  const { code, out } = await redrive('task', 'ls', '--store', url, '--output', 'json')
  expect({ code, tasks: JSON.parse(out) }).toMatchObject({ code: 0, tasks: [{ id: 'mail-1', kind: 'send-email' }] })
})

it.each([
  ['a database that is not there', { pathname: '/nope' }, /is not there: database "nope" does not exist\. Create it, /],
  [
    'a role that is not there',
    { username: 'nobody' },
    /refuses this user: role "nobody" does not exist\. Check the user /,
  ],
  [
    'a port that nobody listens on',
    { port: '1' },
    /cannot be reached \(connect ECONNREFUSED .*\): .* Is the server running/,
  ],
  [
    'a host that is not there',
    { hostname: 'nowhere.invalid' },
    /cannot be reached \(.*\): .* Is the name of the host right\?/,
  ],
  [
    'TLS where there is none',
    { search: '?sslmode=require' },
    /does not support SSL connections\): .* It has no TLS: leave/,
  ],
])('says what to do about %s', async (_, change, text) => {
  const wrong = Object.assign(new URL(url), change)
  const { code, out, err } = await redrive('task', 'ls', '--store', wrong.href)
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(text)
})

it('tells a wrong password apart from a server that is down', async () => {
  await say(`CREATE ROLE keeper LOGIN PASSWORD 'right'`)
  const { rows } = await query('SHOW hba_file')
  const [file, before] = [rows[0].hba_file, readFileSync(rows[0].hba_file, 'utf8')]
  const keeper = Object.assign(new URL(url), { username: 'keeper' })
  try {
    writeFileSync(file, `host all keeper all scram-sha-256\n${before}`)
    await say('SELECT pg_reload_conf()')
    await expect
      .poll(async () => (await redrive('task', 'ls', '--store', keeper.href)).err)
      .toContain('and the URL has none')
    keeper.password = 'wr0ng'
    const { code, err } = await redrive('task', 'ls', '--store', keeper.href)
    expect(code).toBe(1)
    expect(err).toMatch(
      /refuses this user: password authentication failed for user "keeper"\. Check the user and the password/,
    )
    expect(err).not.toContain('wr0ng')
  } finally {
    writeFileSync(file, before)
    await say('SELECT pg_reload_conf()')
  }
})

it('takes the schema from the URL', async () => {
  expect(await redrive('migrate', '--store', `${url}?schema=orders`)).toMatchObject({ code: 0 })
  expect(await redrive('task', 'ls', '--store', `${url}?schema=orders`, '--output', 'json')).toMatchObject({
    code: 0,
    out: '[]\n',
  })
  expect((await redrive('task', 'ls', '--store', `${url}?schema=No-Name`)).err).toContain("'schema' must be a name")
})

it('counts, discards, pauses, streams and prunes as on SQLite', async () => {
  const at = `${url}?schema=operated`
  const on = (...argv: string[]) => redrive(...argv, '--store', at)
  await on('migrate')
  const store = await openPostgres(url, { schema: 'operated' })
  await deadLetters(
    store,
    Array.from({ length: 1203 }, (_, i) => ({ id: `t${i}`, kind: 'email', code: i === 0 ? 'E2' : 'E1' })),
  )
  await store.enqueue([{ id: 'w', kind: 'email', payload: '1' }])
  await store.close()
  expect((await on('dlq', 'count', '--by', 'kind,code')).lines().slice(1)).toEqual([
    '1 202  email  E1',
    '1      email  E2',
  ])
  expect((await on('dlq', 'ls', '--all', '--output', 'jsonl')).lines()).toHaveLength(1203)
  expect((await on('dlq', 'ls')).err).toMatch(/^50 of 1 203\. For the next ones/)
  expect((await on('dlq', 'discard', '--code', 'E1', '--why', 'old', '--yes')).err).toMatch(
    /^1202 discarded\.\nTo put them back, run: redrive ops undo --store '[^']+' op-\w+\n$/m,
  )
  expect((await on('lane', 'pause', '--kind', 'email', '--why', 'down')).err).toBe("Lanes of kind 'email': paused.\n")
  expect((await on('lane', 'ls')).lines()[1]).toMatch(/^email +- +- +paused +1 +0 +1$/)
  expect((await on('task', 'cancel', 'w', '--yes')).err).toBe('1 cancelled.\n')
  expect((await on('stats')).lines()[1]).toMatch(/^email +0 +0 +0 +0 +1 +1 203$/)
  expect((await on('audit', 'tail', '--limit', '1')).lines()[1]).toMatch(/tasks_cancelled +ada +-$/)
  expect((await on('audit', 'verify')).err).toContain('0 decisions on 1 204 tasks recomputed: 0 differ.')
  expect(Number.parseInt((await on('prune', '--keep', '0s', '--yes')).err.replace(' ', ''), 10)).toBeGreaterThan(1203)
})

it('repeats no password in the commands that it suggests', async () => {
  const store = await openPostgres(url)
  const verdict = { class: 'final', code: 'no_use' } as const
  const attempt = { attempt: 1, startedAt: 1, endedAt: 2, worker: 'w', verdict, error: 'no use' }
  const outcome = { type: 'dead', reason: 'final_error' } as const
  await store.enqueue([{ id: 'letter', kind: 'k', payload: '{}', tried: { outcome, attempt } }])
  await store.close()
  const secret = new URL(url)
  secret.password = 'hunter2'
  const { code, out } = await redrive('dlq', 'show', 'letter', '--store', secret.href)
  expect(code).toBe(0)
  expect(out).toContain(':[redacted]@')
  expect(out).not.toContain('hunter2')
})

it('lets a role use the store, and no more', async () => {
  const admin = new pg.Client(url)
  await admin.connect()
  await admin.query('CREATE ROLE "shop app" LOGIN')
  expect(await redrive('migrate', '--store', url, '--grant', 'shop app')).toMatchObject({ code: 0 })
  const app = new URL(url)
  app.username = 'shop app'
  expect(await redrive('task', 'ls', '--store', app.href)).toMatchObject({ code: 0 })

  const store = await openPostgres(app.href)
  await store.enqueue([{ kind: 'k', payload: '{}' }])
  const { tasks } = await store.claim({ worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true })
  expect(tasks).toHaveLength(1)
  await store.close()

  const client = new pg.Client(app.href)
  await client.connect()
  await expect(client.query('CREATE TABLE redrive.mine (id int)')).rejects.toThrow('permission denied')
  await expect(client.query('DROP TABLE redrive.task')).rejects.toThrow('must be owner')
  await expect(client.query('UPDATE redrive.schema_version SET version = 99')).rejects.toThrow('permission denied')
  await client.end()
  await admin.end()
})

it('lets a role enqueue in SQL, and no more', async () => {
  const admin = new pg.Client(url)
  await admin.connect()
  // Roles are those of the server, which other tests share.
  await admin.query('CREATE ROLE "shop web" LOGIN; CREATE ROLE "shop board" LOGIN')
  expect(
    await redrive('migrate', '--store', url, '--grant-enqueue', 'shop web', '--grant-read', 'shop board'),
  ).toMatchObject({
    code: 0,
    out: '',
    err: "The store is ready, and 'shop board' may read its views, and 'shop web' may enqueue into it.\n",
  })
  expect(await redrive('migrate', '--store', url, '--grant-enqueue', 'shop ghost')).toMatchObject({
    code: 2,
    err: expect.stringContaining("has no role 'shop ghost'"),
  })
  const web = new URL(url)
  web.username = 'shop web'
  const client = new pg.Client(web.href)
  await client.connect()
  await client.query(`SELECT redrive.enqueue('sql', '{}', 'from-sql')`)
  await expect(client.query('SELECT * FROM redrive.task')).rejects.toThrow('permission denied')
  await client.end()
  await admin.end()
  const { out } = await redrive('task', 'show', 'from-sql', '--store', url, '--output', 'json')
  expect(JSON.parse(out)).toMatchObject({ kind: 'sql', status: 'waiting' })
})

it('ends a worker whose store refuses for good, and says why', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  const task = JSON.stringify(new URL('../../task/index.ts', import.meta.url).pathname)
  writeFileSync(
    join(folder, 'tasks.ts'),
    `import { defineTask } from ${task}\nexport default [defineTask('k', { handler() {} })]`,
  )
  const app = new URL(url)
  app.username = 'clerk'
  await say('CREATE ROLE clerk LOGIN')
  await redrive('migrate', '--store', url, '--grant', 'clerk')
  let said = ''
  const stderr = {
    write: (text: string) => {
      said += text
    },
  }
  const worker = runCommand(['worker', join(folder, 'tasks.ts'), '--store', app.href], { stderr })
  await expect.poll(() => said, { timeout: 10_000 }).toContain('runs k')
  await say('REVOKE ALL ON ALL TABLES IN SCHEMA redrive FROM clerk')
  const store = await openPostgres(url)
  await store.enqueue([{ kind: 'k', payload: '{}' }])
  await store.close()
  expect(await worker).toMatchObject({ code: 1 })
  expect(said).toMatch(/redrive: The schema .* refuses this user: permission denied .* redrive migrate --grant ROLE/)
  rmSync(folder, { recursive: true })
})

it('says that a file has no roles', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  expect(await redrive('migrate', '--store', `sqlite:${folder}/x.db`, '--grant', 'ada')).toMatchObject({
    code: 2,
    err: 'redrive: --grant is for PostgreSQL. SQLite files have no roles.\n',
  })
  expect(await redrive('migrate', '--store', `sqlite:${folder}/x.db`, '--grant-enqueue', 'ada')).toMatchObject({
    code: 2,
    err: 'redrive: --grant-enqueue is for PostgreSQL. SQLite files have no roles.\n',
  })
  rmSync(folder, { recursive: true })
})

it('runs a pipeline, reports on it, and reprocesses what died', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  const from = JSON.stringify(new URL('../../pipeline/index.ts', import.meta.url).pathname)
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  const code = (bad: number) => /* ts */ `
    import { pipeline, stage } from ${from}
    const check = (n: number) => {
      if (n % ${bad} === 0) throw Object.assign(new Error('Poison'), { status: 422 })
      return n * 2
    }
    export default pipeline('double', [stage('read', (n: number) => n), stage('call', check, { policy: { giveUpOn: [422] } })])
  `
  writeFileSync(join(folder, 'bad.ts'), code(50))
  writeFileSync(join(folder, 'good.ts'), code(1000))
  const numbers = Array.from({ length: 600 }, (_, i) => i + 1)
  writeFileSync(join(folder, 'in.jsonl'), numbers.join('\n'))
  const pipeline = (...argv: string[]) => runCommand(['pipeline', ...argv, '--store', url, '--yes'], { cwd: folder })
  const look = (...argv: string[]) => runCommand(['pipeline', ...argv, '--store', url, '--output', 'json'])
  try {
    const run = await pipeline('run', 'bad.ts', '--in', 'in.jsonl', '--id', 'r', '--out', 'out.jsonl', '--trial', '50')
    expect(run.err).toContain('Trial: 50 of 600 lines')
    expect(run).toMatchObject({ code: 0 })
    expect((await look('report', 'r')).json()).toMatchObject({
      status: 'completed',
      counts: { succeeded: 588, dead: 12 },
      stageReports: [{ passed: 600 }, { passed: 588, dead: 12 }],
      errors: [{ stage: 'call', code: 'http_422', failures: 12, dead: 12 }],
    })
    expect((await pipeline('reprocess', 'r', '--stage', 'call')).err).toContain('12 moved.')
    expect(await pipeline('resume', 'r', 'good.ts', '--out', 'out.jsonl', '--yes')).toMatchObject({ code: 0 })
    const lines = readFileSync(join(folder, 'out.jsonl'), 'utf8').trimEnd().split('\n').map(Number)
    expect(lines).toEqual(numbers.map(n => n * 2))
    expect((await look('ls')).json()).toMatchObject([{ id: 'r', endings: 2, counts: { succeeded: 600 } }])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
