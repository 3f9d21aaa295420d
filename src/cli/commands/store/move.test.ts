import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../../../test/command.js'
import { freshDatabase } from '../../../../test/services/fresh-database.js'
import type { NewTask } from '../../../store/index.js'
import { openPostgres } from '../../../store/postgres/internal.js'
import { openSqlite, type SqliteStore } from '../../../store/sqlite/internal.js'

const MAIN = new URL('../../main.ts', import.meta.url).pathname
const TSX = import.meta.resolve('tsx')

let folder: string
let source: SqliteStore
let target: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-cli-'))
  source = await openSqlite(join(folder, 'source.db'))
  target = await freshDatabase()
}, 120_000)
afterEach(async () => {
  await source.close()
  rmSync(folder, { recursive: true })
})

/** Runs the command in the test's folder. */
const redrive = (...argv: string[]) => runCommand(argv, { cwd: folder })

const move = (...argv: string[]) => redrive('move', '--from', 'sqlite:source.db', '--to', target, ...argv)

const tasks = (count: number): NewTask[] =>
  Array.from({ length: count }, (_, n) => ({ id: `t${n}`, kind: 'mail', payload: `{"n":${n}}` }))

/** The output of `task ls`. */
const listed = async (url: string) => (await redrive('task', 'ls', '--store', url, '--output', 'jsonl')).out

describe('redrive move', () => {
  it('says what it moved, that it was verified, and that the source is not to be used any more', async () => {
    await source.enqueue(tasks(3))
    await source.audit.append(['{}'])
    const { code, out, err } = await move()
    expect(code).toBe(0)
    expect(out).toMatch(/^WHAT +AT THE SOURCE +THERE BEFORE +MOVED +CHECKSUM$/m)
    expect(out).toMatch(/^tasks +3 +0 +3 +[0-9a-f]{12}$/m)
    expect(out).toMatch(/^audit records +1 +0 +1 +[0-9a-f]{12}$/m)
    // On a slow machine it also says how far it has come.
    expect(err.replace(/^(comparing|moving|verifying) .*\n/gm, '')).toBe(
      'Moved and verified: both stores hold the same, by count and by checksum.\n' +
        'The source still has everything. Do not start a worker on it again: its tasks would run twice.\n',
    )
    expect((await listed(target)).trimEnd().split('\n')).toHaveLength(3)
    expect(await listed(target)).toBe(await listed('sqlite:source.db'))

    const again = await move('--output', 'json')
    expect(again.code).toBe(0)
    const parts = JSON.parse(again.out)
    expect(parts.map(({ section }: { section: string }) => section)).toEqual([
      'pause',
      'limit',
      'shared',
      'budget',
      'declared',
      'lane',
      'policy',
      'task',
      'unique',
      'record',
      'operation_tally',
      'group',
      'tally',
      'cost',
      'run',
      'item',
      'output',
      'key',
      'audit',
    ])
    expect(parts[7]).toEqual({
      section: 'task',
      source: 3,
      before: 3,
      moved: 0,
      checksum: expect.stringMatching(/^.{64}$/),
    })
  })

  it('brings it back into a new file', async () => {
    await source.enqueue(tasks(2))
    await move()
    const { code } = await redrive('move', '--from', target, '--to', 'sqlite:back.db')
    expect(code).toBe(0)
    expect(await listed('sqlite:back.db')).toBe(await listed('sqlite:source.db'))
  })

  it('says in a dry run what there is to move, and makes nothing, not even the target', async () => {
    await source.enqueue(tasks(3))
    const { code, out, err } = await move('--dry-run', '--output', 'jsonl')
    expect(code).toBe(0)
    expect(out).toContain('{"section":"task","source":3,"before":0}\n')
    expect(err).toContain('4 would be moved. This was a dry run: 0 moved.\n')
    const client = new pg.Client({ connectionString: target })
    await client.connect()
    expect((await client.query(`SELECT FROM pg_namespace WHERE nspname = 'redrive'`)).rowCount).toBe(0)
    await client.end()
    await redrive('move', '--from', 'sqlite:source.db', '--to', 'sqlite:new.db', '--dry-run')
    expect(existsSync(join(folder, 'new.db'))).toBe(false)

    await move()
    await source.enqueue([{ kind: 'mail', payload: '{}' }])
    const rest = await move('--dry-run')
    expect(rest.out).toMatch(/^tasks +4 +3$/m)
    expect(rest.err).toBe('1 would be moved. This was a dry run: 0 moved.\n')
  })

  it('refuses while a worker is at work on the source, with 2', async () => {
    await source.enqueue(tasks(1))
    await source.claim({ worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['mail'] }], limit: 1, isIdle: true })
    expect((await move('--dry-run')).err).toContain('1 running: stop the workers of the source before you move it.\n')
    const { code, out, err } = await move()
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(/^redrive: The source is in use: one of its tasks is running\. Stop its workers;/)
  })

  it('refuses a target that holds something else, with 2, and leaves it as it was', async () => {
    await source.enqueue(tasks(1))
    const theirs = await openPostgres(target)
    await theirs.enqueue([{ id: 'theirs', kind: 'other', payload: '{}' }])
    const { code, err } = await move()
    expect(code).toBe(2)
    expect(err).toContain("The target holds something else: the lane 'other' '' '' is only in the target.")
    expect(await theirs.count({})).toMatchObject({ waiting: 1 })
    await theirs.close()
  })

  it.each([
    [['--to', 'sqlite:x.db'], "required option '--from <url>' not specified"],
    [['--from', 'sqlite:x.db'], "required option '--to <url>' not specified"],
    [['--from', 'sqlite:x.db', '--to', 'sqlite:x.db'], '--from and --to are the same store'],
    [['--from', 'mysql://ada:secret@db/x', '--to', 'sqlite:x.db'], "'mysql:' are not supported"],
  ])('refuses %j, with 2, and repeats no password', async (argv, text) => {
    const { code, err } = await redrive('move', ...argv)
    expect(code).toBe(2)
    expect(err).toContain(text)
    expect(err).not.toContain('secret')
  })

  it('makes no source that is not there', async () => {
    const { code, err } = await redrive('move', '--from', 'sqlite:none.db', '--to', 'sqlite:new.db')
    expect(code).toBe(1)
    expect(err).toContain("There is no store at 'none.db'")
    expect(existsSync(join(folder, 'none.db')) || existsSync(join(folder, 'new.db'))).toBe(false)
  })

  it('stopped by Ctrl-C, ends with 3; the same command goes on with the rest', { timeout: 60_000 }, async () => {
    await source.enqueue(tasks(2000))
    const theirs = await openPostgres(target)
    const argv = ['move', '--from', 'sqlite:source.db', '--to', target, '--output', 'jsonl']
    const child = spawn(process.execPath, ['--import', TSX, MAIN, ...argv], { cwd: folder })
    let [out, err] = ['', '']
    child.stdout.on('data', data => (out += data))
    child.stderr.on('data', data => (err += data))
    const ended = new Promise(resolve => child.on('close', resolve))
    while (child.exitCode === null && (await theirs.count({})).waiting < 100) await sleep(2)
    child.kill('SIGINT')
    expect(await ended, err).toBe(3)
    expect(err).toMatch(/SIGINT: stopping after this page\.\n(moving .*\n)?Stopped\. The target keeps what was moved/)
    const { moved } = JSON.parse(out.split('\n').find(line => line.includes('"task"')) ?? '{}')
    expect((await theirs.count({})).waiting).toBe(moved)
    await theirs.close()

    const rest = await move('--output', 'jsonl')
    expect(rest.code).toBe(0)
    expect(rest.out).toContain(`{"section":"task","source":2000,"before":${moved},"moved":${2000 - moved},"checksum":"`)
  })
})
