import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { OptionError } from '../../policy/index.js'
import { StoreForeignError } from '../contract/errors.js'
import { backupSqlite } from './backup.js'
import { openSqlite, type SqliteStore } from './internal.js'

const PROCESSES = 3
const BACKUPS = 3
/** Enough that a backup takes many steps, between which others commit. */
const PAYLOAD = JSON.stringify('x'.repeat(2000))

let folder: string
let path: string
let copyPath: string
let store: SqliteStore
const children: ChildProcess[] = []
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  path = join(folder, 'redrive.db')
  copyPath = join(folder, 'copy.db')
  store = await openSqlite(path)
})
afterEach(async () => {
  const ended = children.map(child => once(child, 'close'))
  for (const child of children.splice(0)) child.kill('SIGKILL')
  await Promise.all(ended)
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Enqueues, claims, settles and moves the WAL into the file without an end, and prints a line after each round. */
const BUSY = /* js */ `
  import { openSqlite } from ${JSON.stringify(new URL('index.ts', import.meta.url).href)}
  import Database from 'better-sqlite3'
  const store = await openSqlite(process.argv[1])
  const db = new Database(process.argv[1])
  const worker = 'w' + process.pid
  for (let round = 0; ; round++) {
    await store.enqueue(Array.from({ length: 20 }, () => ({ kind: 'k', key: 'tenant-' + (round % 3), payload: ${JSON.stringify(PAYLOAD)} })))
    const { tasks } = await store.claim({ worker, leaseMs: 60_000, rooms: [{ kinds: ['k'] }], limit: 20, isIdle: true })
    await store.settle(tasks.map(({ id, token, attempts }, index) => ({
      id, token,
      outcome: index === 0 ? { type: 'retry', delayMs: 5, isBackoff: true } : { type: 'succeeded' },
      attempt: { attempt: attempts + 1, startedAt: 1, endedAt: 2, worker, verdict: { class: 'retryable', code: 'E' } },
    })))
    db.pragma('wal_checkpoint(PASSIVE)')
    process.stdout.write(round + '\\n')
  }
`

/** Starts a busy process, and waits until it is at work. */
async function startBusy(): Promise<void> {
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', BUSY, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  await once(child.stdout ?? child, 'data')
}

async function fill(count: number): Promise<void> {
  await store.enqueue(Array.from({ length: count }, () => ({ kind: 'k', payload: PAYLOAD })))
}

/** Opens a copy as a store of its own. */
async function inCopy<T>(use: (copy: SqliteStore) => Promise<T>): Promise<T> {
  const copy = await openSqlite(copyPath)
  try {
    return await use(copy)
  } finally {
    await copy.close()
  }
}

const parts = () => readdirSync(folder).filter(name => name.includes('.part-'))

describe('a backup', { timeout: 60_000 }, () => {
  it('of a store that several processes write to is whole, and the store at one moment', async () => {
    await fill(3000)
    await Promise.all(Array.from({ length: PROCESSES }, startBusy))
    for (let round = 0; round < BACKUPS; round++) {
      const id = `marker-${round}`
      await store.enqueue([{ id, kind: 'marker', payload: '{}' }])
      let steps = 0
      await store.backup(copyPath, { overwrite: true, onProgress: () => steps++ })
      expect(steps).toBeGreaterThan(3)
      const file = new Database(copyPath)
      expect(file.pragma('integrity_check', { simple: true })).toBe('ok')
      file.close()
      await inCopy(async copy => {
        await checkInvariants(copy)
        expect(await copy.get(id), 'what was committed before it began').toMatchObject({ status: 'waiting' })
      })
    }
    expect(parts()).toEqual([])
  })

  it('lets the process go on: its own calls are answered meanwhile', async () => {
    await fill(3000)
    let answers = 0
    let isOver = false
    const backup = store.backup(copyPath).finally(() => {
      isOver = true
    })
    while (!isOver) {
      await store.enqueue([{ kind: 'k', payload: '{}' }])
      answers++
    }
    await backup
    expect(answers).toBeGreaterThan(2)
  })

  it('is one file, for its owner alone', async () => {
    await fill(1)
    await store.backup(copyPath)
    expect((statSync(copyPath).mode & 0o777).toString(8)).toBe('600')
    expect(readdirSync(folder).filter(name => name.startsWith('copy'))).toEqual(['copy.db'])
  })

  it('refuses a file that exists, unless it may replace that', async () => {
    writeFileSync(copyPath, 'precious')
    await expect(store.backup(copyPath)).rejects.toThrow(OptionError)
    expect(readFileSync(copyPath, 'utf8')).toBe('precious')
    await store.backup(copyPath, { overwrite: true })
    expect(await inCopy(copy => copy.count({}))).toMatchObject({ waiting: 0 })
  })

  it('never takes the place of the store itself', async () => {
    await expect(store.backup(path, { overwrite: true })).rejects.toThrow('is the store itself')
    await fill(1)
  })

  it('leaves nothing behind when it is stopped, or cannot be written', async () => {
    await fill(3000)
    const stop = new AbortController()
    const onProgress = () => stop.abort(new Error('enough'))
    await expect(store.backup(copyPath, { signal: stop.signal, onProgress })).rejects.toThrow('enough')
    await expect(store.backup(join(folder, 'nowhere', 'copy.db'))).rejects.toThrow('ENOENT')
    expect([existsSync(copyPath), parts()]).toEqual([false, []])
  })

  it('only reads: an older store is not upgraded, and a file that is no store is refused', async () => {
    await store.close()
    const older = new Database(path)
    older.pragma('user_version = 0')
    older.close()
    const before = readFileSync(path)
    await backupSqlite(path, copyPath)
    expect(readFileSync(path)).toEqual(before)
    const copy = new Database(copyPath)
    expect(copy.pragma('user_version', { simple: true })).toBe(0)
    copy.close()
    const foreign = join(folder, 'notes.txt')
    writeFileSync(
      foreign,
      'not a database, and long enough to have a header of a hundred bytes or so, which it has not',
    )
    chmodSync(foreign, 0o400)
    await expect(backupSqlite(foreign, join(folder, 'other.db'))).rejects.toThrow(StoreForeignError)
  })
})
