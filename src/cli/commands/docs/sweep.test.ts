import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { quietEnvironment, runCommand } from '../../../../test/command.js'
import { freshDatabase } from '../../../../test/services/fresh-database.js'
import { ownSpace } from '../../../../test/services/own-space.js'
import { startPushgateway } from '../../../../test/services/pushgateway.js'
import { BROKER_MS, sharedBroker } from '../../../../test/services/shared-broker.js'
import type { Bus } from '../../../bus/index.js'
import type { Environment } from '../../environment.js'
import { openBus } from '../shared/open-bus.js'

const TYPES = { parsing: 'archive.ingested', chunking: 'json.parsed' }
const HOUR = 3_600_000
const MAIN = new URL('../../main.ts', import.meta.url).pathname
const TSX = import.meta.resolve('tsx')

let folder: string
let db: Database.Database
let env: Environment['env']
let bus: Bus
beforeEach(async () => {
  const shared = await sharedBroker('nats')
  folder = mkdtempSync(join(tmpdir(), 'redrive-sweep-'))
  db = new Database(join(folder, 'app.db'))
  for (const [table, id] of [
    ['archives', 'archive_id'],
    ['messages', 'id'],
    ['chunks', 'id'],
    ['threads', 'thread_id'],
    ['graveyard', 'archive_id'],
  ]) {
    db.exec(`CREATE TABLE ${table} (${id} TEXT PRIMARY KEY, status TEXT, attemptCount INTEGER, lastAttemptTime TEXT,
      archive_id_of TEXT)`)
  }
  env = { REDRIVE_BUS: await ownSpace('nats', shared), REDRIVE_SOURCE: 'sqlite:app.db' }
  bus = await openBus({}, quietEnvironment({ env }))
  await bus.declare(TYPES)
}, BROKER_MS)
afterEach(async () => {
  await bus?.close()
  db?.close()
  rmSync(folder, { recursive: true, force: true })
})

const redrive = (argv: readonly string[], overrides: Partial<Environment> = {}) =>
  runCommand(argv, { env, cwd: folder, ...overrides })
const ago = (ms: number) => new Date(Date.now() - ms).toISOString()
const insert = (id: string, status: string, attempts: number | null, last: string | null) =>
  db.prepare('INSERT INTO archives VALUES (?, ?, ?, ?, NULL)').run(id, status, attempts, last)
const archive = (id: string) => db.prepare('SELECT * FROM archives WHERE archive_id = ?').get(id)
const sent = async () => (await bus.status(TYPES)).find(({ name }) => name === 'parsing')?.messages

describe('redrive sweep', () => {
  it('sweeps the collections of the preset once', async () => {
    insert('a1', 'pending', null, null)
    insert('a2', 'processing', 3, ago(25 * HOUR))
    const { code, out } = await redrive(['sweep', '--once', '--output', 'json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject([
      { collection: 'archives', stuck: 2, requeued: 1, exhausted: 1, failed: 1 },
      { collection: 'messages', stuck: 0 },
      { collection: 'chunks' },
      { collection: 'threads' },
    ])
    expect(await sent()).toBe(1)
    expect(archive('a2')).toMatchObject({ status: 'failed_max_retries' })
  })

  it('does not create a store for a dry run', async () => {
    const { code, err } = await redrive(['sweep', '--dry-run', '--store', 'sqlite:new.db'])
    expect(code).toBe(1)
    expect(err).toContain("There is no store at 'new.db'.")
    expect(existsSync(join(folder, 'new.db'))).toBe(false)
  })

  it('does nothing in a dry run, and needs no bus for it', async () => {
    insert('a1', 'pending', null, null)
    const { code, out, err } = await redrive(['sweep', '--dry-run'], { env: { ...env, REDRIVE_BUS: '' } })
    expect(code).toBe(0)
    expect(out).toMatch(/archives +1 +1/)
    expect(err).toContain('This was a dry run')
    expect(archive('a1')).toMatchObject({ attemptCount: null })
    expect(await sent()).toBe(0)
  })

  it('lets a flag beat its variable, and a threshold of 0 leaves it to the backoff', async () => {
    insert('a1', 'pending', 1, ago(6 * 60_000))
    insert('a2', 'pending', 1, ago(4 * 60_000))
    const hours = { ...env, RETRY_JOB_STUCK_THRESHOLD_HOURS: '48' }
    const sweep = async (flags: string[]) => {
      const { out } = await redrive(['sweep', '--dry-run', '--output', 'json', ...flags], { env: hours })
      return JSON.parse(out)[0]
    }
    expect(await sweep([])).toMatchObject({ stuck: 0 })
    expect(await sweep(['--stuck-threshold-hours', '0'])).toMatchObject({ stuck: 2, requeued: 1, skipped: 1 })
    expect(await sweep(['--stuck-threshold-hours', '0', '--base-delay', '1m'])).toMatchObject({ requeued: 2 })
  })

  it('exits with 1 if the source or the bus cannot be reached', async () => {
    const lost = await redrive(['sweep', '--once', '--source', 'sqlite:nowhere.db'])
    expect(lost.code).toBe(1)
    expect(lost.err).toContain('nowhere.db')
    expect(lost.err.trim().split('\n')).toHaveLength(1)
    const unknown = await redrive(['sweep', '--once', '--source', 'mysql://x'])
    expect(unknown.err).toContain("Sources of the kind 'mysql:' are not supported")
  })

  it('ends at once if it is not told which source or bus, or a wrong one', async () => {
    for (const [given, said] of [
      [{ ...env, REDRIVE_SOURCE: '' }, 'Which source?'],
      [{ ...env, REDRIVE_BUS: '' }, 'Which bus?'],
      [{ ...env, REDRIVE_SOURCE: 'mysql://x' }, "the kind 'mysql:' are not supported"],
    ] as const) {
      for (const flags of [[], ['--once']]) {
        const { code, err } = await redrive(['sweep', ...flags], { env: given })
        expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(said) })
        expect(err.split(said)).toHaveLength(2)
      }
    }
  })

  it('exits with 3 if not all events were published, and says why', async () => {
    insert('a1', 'pending', null, null)
    db.exec(`INSERT INTO chunks (id, status) VALUES ('c1', 'pending')`)
    const { code, out, err } = await redrive(['sweep', '--once'])
    expect(code).toBe(3)
    expect(out).toMatch(/chunks +1 +0 .*\n +1 not published/)
    expect(err).toContain("There is no queue for 'chunks.prepared'")
  })

  it('pushes its metrics to a Pushgateway, which adds up what each process counts', { timeout: 300_000 }, async () => {
    const gateway = await startPushgateway()
    onTestFinished(() => gateway.close())
    for (const total of [1, 2]) {
      insert(`a${total}`, 'pending', null, null)
      await redrive(['sweep', '--once', '--push', gateway.url])
      const text = await (await fetch(`${gateway.url}/metrics`)).text()
      expect(text).toMatch(new RegExp(`retry_job_documents_requeued_total\\{.*job="redrive-sweeper".*\\} ${total}\n`))
    }
  })

  it('takes collections from a module, and goes on if one of them does not exist', async () => {
    writeFileSync(
      join(folder, 'collections.mjs'),
      `const event = { type: 'archive.ingested', data: ({ id }) => ({ id }) }
       const fields = { id: 'archive_id' }
       export default { stuckAfter: 0, collections: [{ name: 'nowhere', event }, { name: 'archives', event, fields }] }`,
    )
    insert('a1', 'pending', null, null)
    const { code, out } = await redrive(['sweep', '--once', '--config', 'collections.mjs', '--output', 'json'])
    expect(code).toBe(3)
    expect(JSON.parse(out)).toMatchObject([{ failure: expect.stringContaining("'nowhere'") }, { requeued: 1 }])
  })

  it('records dead letters in a store', async () => {
    insert('a1', 'pending', 3, ago(25 * HOUR))
    await redrive(['sweep', '--once', '--store', 'sqlite:store.db'])
    const { out } = await redrive(['dlq', 'ls', '--store', 'sqlite:store.db', '--output', 'json'])
    expect(JSON.parse(out)).toMatchObject([{ kind: 'document:archives', reason: 'attempts_exhausted' }])
  })

  it('runs until a signal, and warns of a Pushgateway that is down', async () => {
    insert('a1', 'pending', null, null)
    let stop = (_: string) => {}
    const onSignal = (callback: (signal: string) => void) => {
      stop = callback
      return () => {}
    }
    const running = redrive(['sweep', '--push', 'http://127.0.0.1:9'], { onSignal })
    await expect.poll(sent).toBe(1)
    stop('SIGTERM')
    const { code, err } = await running
    expect(code).toBe(0)
    expect(err).toContain('The metrics were not pushed')
  })
})

describe('redrive docs', () => {
  beforeEach(() => {
    insert('a1', 'failed_max_retries', 3, ago(30 * HOUR))
    insert('a2', 'failed_max_retries', 3, ago(20 * HOUR))
    insert('a3', 'pending', 1, ago(26 * HOUR))
    insert('a4', 'processing', 1, ago(HOUR))
  })

  it('lists what has failed and what is stuck', async () => {
    const failed = await redrive(['docs', 'ls', '--failed', '--output', 'jsonl'])
    expect(
      failed.out
        .trim()
        .split('\n')
        .map(line => JSON.parse(line).id),
    ).toEqual(['a1', 'a2'])
    expect(failed.err).toContain("1 stuck and 2 failed in 'archives'.")
    const stuck = await redrive(['docs', 'ls', 'archives', '--stuck'])
    expect(stuck.out).toMatch(/archives +a3 +pending +1/)
    expect((await redrive(['docs', 'ls', '--stuck', '--failed'])).code).toBe(2)
    db.exec('DROP TABLE chunks')
    const partly = await redrive(['docs', 'ls', '--failed', '--output', 'jsonl'])
    expect(partly).toMatchObject({ code: 3, out: failed.out, err: expect.stringContaining("no collection 'chunks'") })
    expect((await redrive(['docs', 'ls', 'nothing'])).err).toContain('The collections are archives, messages')
  })

  it('lists all of them on request, however many', async () => {
    db.transaction(() => {
      for (let i = 0; i < 1100; i++) insert(`many-${i}`, 'failed_max_retries', 3, ago(48 * HOUR))
    })()
    const list = async (...flags: string[]) =>
      (await redrive(['docs', 'ls', '--failed', '--output', 'json', ...flags])).json()
    expect(await list()).toHaveLength(50)
    expect(await list('--limit', '700')).toHaveLength(700)
    expect(await list('--all')).toHaveLength(1102)
    expect((await redrive(['docs', 'ls', 'archives', '--failed', '--all'])).lines()).toHaveLength(1103)
    expect(await redrive(['docs', 'ls', '--all', '--limit', '3'])).toMatchObject({ code: 2 })
  })

  it('groups documents that failed in the same way, as of the look', async () => {
    db.exec(`UPDATE archives SET archive_id_of = 'Error: order ' || substr(archive_id, 2) || ' not found'`)
    writeFileSync(
      join(folder, 'errors.mjs'),
      `const event = { type: 'archive.ingested', data: ({ id }) => ({ id }) }
       const fields = { id: 'archive_id', lastError: 'archive_id_of' }
       export default { collections: [{ name: 'archives', event, fields, statuses: { failed: 'failed_max_retries' } }] }`,
    )
    const { code, json, err } = await redrive([
      ...['docs', 'groups', 'archives', '--config', 'errors.mjs', '--output', 'json'],
    ])
    expect(code).toBe(0)
    expect(json()).toEqual([
      expect.objectContaining({ kind: 'archives', pattern: 'order * not found', count: 2, examples: ['a1', 'a2'] }),
    ])
    expect(err).toMatch(/^As of .*Z: 1 group of 2 of 2\.\n$/)

    const store = ['--store', 'sqlite:redrive.db']
    await redrive(['migrate', ...store])
    await redrive(['groups', 'rule', 'add', 'order {*} not found', '--kind', 'archives', ...store])
    const ruled = await redrive(['docs', 'groups', 'archives', '--config', 'errors.mjs', ...store, '--output', 'json'])
    const patterns = ruled.json().map(({ pattern }: { pattern: string }) => pattern)
    expect(patterns.sort()).toEqual(['order 1 not found', 'order 2 not found'])
  })

  it('shows a document and explains it', async () => {
    const { out } = await redrive(['docs', 'show', 'archives', 'a3', '--output', 'json'])
    expect(JSON.parse(out)).toMatchObject({ id: 'a3', attemptCount: 1, data: { archive_id: 'a3' } })
    expect((await redrive(['docs', 'why', 'archives', 'a3'])).out).toContain('the next sweep requeues it')
    expect((await redrive(['docs', 'why', 'archives', 'a4'])).out).toMatch(/under way[\s\S]*looks at it again/)
    expect((await redrive(['docs', 'why', 'archives', 'a1'])).out).toContain('It has failed')
    const missing = await redrive(['docs', 'why', 'archives', 'a9'])
    expect(missing).toMatchObject({ code: 1, err: expect.stringContaining("There is no document 'a9'") })
  })

  it('shows that a value cannot be read, instead of never or 0', async () => {
    insert('a5', 'pending', 1, 'yesterday')
    db.exec(`UPDATE archives SET attemptCount = 'two' WHERE archive_id = 'a3'`)
    const { out } = await redrive(['docs', 'ls', 'archives'])
    expect(out).toMatch(/a5 +pending +1 +unreadable +'lastAttemptTime' is not a time/)
    expect(out).toMatch(/a3 +pending +unreadable +1d 2h ago/)
    expect((await redrive(['docs', 'why', 'archives', 'a5'])).out).toContain('last attempt: unreadable\n')
    const { json } = await redrive(['docs', 'show', 'archives', 'a5', '--output', 'json'])
    expect(json()).toMatchObject({ lastAttemptTime: null, unreadable: ['lastAttemptTime'] })
  })

  it('explains a failed document with the whole command that resets it', async () => {
    insert("it's", 'failed_max_retries', 3, ago(30 * HOUR))
    const why = (id: string, ...flags: string[]) => redrive(['docs', 'why', ...flags, '--', 'archives', id])
    expect((await why('a1')).out).toContain('run:\n    redrive docs reset archives a1\n')
    const { out } = await why("it's", '--source', 'sqlite:./app.db')
    const [, command = ''] = /run:\n {4}redrive (.*)\n/.exec(out) ?? []
    expect(command).toBe("docs reset --source sqlite:./app.db archives 'it'\"'\"'s'")
    insert('-1', 'failed_max_retries', 3, ago(30 * HOUR))
    expect((await why('-1')).out).toContain('    redrive docs reset -- archives -1\n')
    writeFileSync(
      join(folder, 'own.mjs'),
      `const event = { type: 'archive.ingested', data: ({ id }) => ({ id }) }
       export default { collections: [{ name: 'archives', event, fields: { id: 'archive_id' } }] }`,
    )
    expect((await why('a1', '--config', 'own.mjs')).out).toContain('reset --config own.mjs archives a1\n')
  })

  it('resets one document, or all of them, and refuses an empty filter', async () => {
    expect((await redrive(['docs', 'reset', 'archives'])).code).toBe(2)
    expect((await redrive(['docs', 'reset', 'archives', 'a3'])).err).toContain("is 'pending', not failed")
    expect((await redrive(['docs', 'reset', 'archives', 'a1'])).err).toContain('1 reset')
    expect(archive('a1')).toMatchObject({ status: 'pending', attemptCount: 0, lastAttemptTime: null })
    expect((await redrive(['docs', 'reset', 'archives', '--all', '--dry-run'])).err).toContain('1 would be reset')
    expect((await redrive(['docs', 'reset', 'archives', '--all', '--rate', '1000/s'])).err).toContain('1 reset')
  })

  describe('on record', () => {
    const onRecord = { env: {} as Environment['env'] }
    beforeEach(async () => {
      onRecord.env = { ...env, REDRIVE_STORE: 'sqlite:redrive.db' }
      await redrive(['migrate'], onRecord)
    })
    const shown = async (id: string) => (await redrive(['ops', 'show', id, '--output', 'json'], onRecord)).json()
    const failMany = (count: number) => {
      const at = ago(30 * HOUR)
      db.transaction(() => {
        for (let n = 0; n < count; n++) insert(`f${n}`, 'failed_max_retries', 3, at)
      })()
    }
    const failed = () =>
      db.prepare(`SELECT count(*) FROM archives WHERE status = 'failed_max_retries'`).pluck().get() as number

    it('resets documents as an operation, and says who asked for it and how far it came', async () => {
      failMany(3)
      const argv = ['docs', 'reset', 'archives', '--all', '--why', 'the disk is back', '--output', 'json']
      const { code, json } = await redrive(argv, { ...onRecord, user: 'ann' })
      const { operation, ...result } = json()
      const reset = 5
      expect({ code, ...result }).toEqual({ code: 0, collection: 'archives', reset, refused: {}, isStopped: false })
      expect(await shown(operation)).toMatchObject({
        act: 'reset',
        status: 'done',
        who: 'ann',
        why: 'the disk is back',
        set: { collection: 'archives', source: `sqlite:${join(folder, 'app.db')}`, count: reset },
        moved: reset,
        outcome: `${reset} reset.`,
      })
      const undone = await redrive(['ops', 'undo', operation, '--yes'], onRecord)
      expect(undone.err).toContain('is a reset of documents, which cannot be undone.')
      expect((await redrive(['audit', 'tail', '--output', 'jsonl'], onRecord)).out).toContain('"act":"reset"')
    })

    it('leaves it to a sweeper with --detach, and needs a store for that', async () => {
      failMany(3)
      const argv = ['docs', 'reset', 'archives', '--all', '--detach']
      expect(await redrive(argv)).toMatchObject({ code: 2, err: expect.stringContaining('Pass --store') })
      const { code, err, json } = await redrive([...argv, '--output', 'json'], onRecord)
      expect(code).toBe(0)
      expect(err).toContain(
        'A running sweeper of this source that uses this store carries it out. To do it here, run: redrive ops continue op-',
      )
      const { id } = json().operation
      expect(failed()).toBe(5)
      await redrive(['ops', 'stop', id], onRecord)
      expect(await redrive(['ops', 'continue', id, '--detach'], onRecord)).toMatchObject({ code: 0 })
      expect(await redrive(['ops', 'continue', id], onRecord)).toMatchObject({ code: 0 })
      expect(failed()).toBe(0)
    })

    it('goes on after it was killed, with the same source only', { timeout: 60_000 }, async () => {
      failMany(2000)
      const argv = ['--import', TSX, MAIN, 'docs', 'reset', 'archives', '--all', '--rate', '300/s']
      const given = { ...process.env, ...onRecord.env }
      const child = spawn(process.execPath, argv, { cwd: folder, env: given, stdio: 'ignore' })
      const ended = new Promise(resolve => child.on('close', resolve))
      await vi.waitFor(() => expect(failed()).toBeLessThan(1900), { timeout: 40_000, interval: 5 })
      child.kill('SIGKILL')
      await ended
      const left = failed()
      expect(left).toBeGreaterThan(0)
      const [{ id, moved, status }] = (await redrive(['ops', 'ls', '--output', 'json'], onRecord)).json()
      expect(status).toBe('running')
      expect(moved).toBeGreaterThan(0)
      db.exec(`VACUUM INTO '${join(folder, 'other.db')}'`)
      const wrong = await redrive(['ops', 'continue', id, '--source', 'sqlite:other.db'], onRecord)
      expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('Pass the same --source.') })
      expect(await redrive(['ops', 'stop', id], onRecord)).toMatchObject({ code: 0 })
      expect((await redrive(['ops', 'show', id], onRecord)).out).toMatch(/^ {2}left +up to \d+$/m)
      expect(await redrive(['ops', 'continue', id], onRecord)).toMatchObject({ code: 0 })
      expect(failed()).toBe(0)
      expect(await shown(id)).toMatchObject({ status: 'done', left: 0 })
    })
  })

  it('requeues one document at once, and says why it cannot at another time', async () => {
    expect((await redrive(['docs', 'requeue', 'archives', 'a4'])).code).toBe(0)
    expect(archive('a4')).toMatchObject({ attemptCount: 2 })
    expect(await sent()).toBe(1)
    const later = await redrive(['docs', 'requeue', 'archives', 'a4', '--at', '2026-12-01T00:00:00Z'])
    expect(later).toMatchObject({ code: 1, err: expect.stringContaining("'generation' and 'retryAt'") })
    expect((await redrive(['docs', 'requeue', 'archives', 'a1'])).err).toContain('Reset it first')
  })

  it('exports failed documents, and purges them once that is confirmed', async () => {
    expect((await redrive(['docs', 'export', 'archives', 'failed.jsonl'])).err).toContain('2 exported')
    const lines = readFileSync(join(folder, 'failed.jsonl'), 'utf8').trim().split('\n')
    expect(lines.map(line => JSON.parse(line).data.archive_id)).toEqual(['a1', 'a2'])
    const unasked = await redrive(['docs', 'purge', 'archives', '--all'])
    expect(unasked).toMatchObject({ code: 2, err: expect.stringContaining('pass --yes. 0 purged') })
    const purged = await redrive(['docs', 'purge', 'archives', '--all', '--archive', 'graveyard', '--yes'])
    expect(purged.err).toContain('2 purged')
    expect(archive('a1')).toBeUndefined()
    expect(db.prepare('SELECT count(*) AS n FROM graveyard').get()).toEqual({ n: 2 })
  })

  it('exports JSON columns of PostgreSQL with the numbers that they hold', async () => {
    const url = await freshDatabase()
    const pool = new pg.Pool({ connectionString: url })
    await pool.query(`
      CREATE TABLE archives (archive_id text PRIMARY KEY, status text, "attemptCount" int, "lastAttemptTime" timestamptz, body jsonb);
      INSERT INTO archives VALUES ('a1', 'failed_max_retries', 3, NULL, '{"id": 9007199254740993}')`)
    await pool.end()
    const { out } = await redrive(['docs', 'export', 'archives', '-'], { env: { ...env, REDRIVE_SOURCE: url } })
    expect(out).toContain('"body":{"id":9007199254740993}')
  })

  it('prints the indexes, and creates them on request', async () => {
    expect((await redrive(['docs', 'indexes'])).out).toContain('CREATE INDEX IF NOT EXISTS "archives_redrive_open"')
    await redrive(['docs', 'indexes', '--create'])
    const names = db.prepare(`SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'archives'`).all()
    expect(names).toContainEqual({ name: 'archives_redrive_open' })
  })
})
