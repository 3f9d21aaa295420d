import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { OptionError } from '../../policy/index.js'
import {
  StoreClosedError,
  StoreDamagedError,
  StoreForeignError,
  StoreNewerError,
  StoreReadOnlyError,
  StoreReplacedError,
} from '../contract/errors.js'
import { openSqlite } from './internal.js'

import { MIGRATIONS } from './schema.js'

let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  path = join(folder, 'redrive.db')
})
afterEach(() => rmSync(folder, { recursive: true }))

const hash = () => createHash('sha256').update(readFileSync(path)).digest('hex')

/** Asserts that opening is refused, and that not a byte of the file changed. */
async function refused(error: abstract new (...args: never[]) => Error, message: RegExp): Promise<void> {
  const before = hash()
  const opening = openSqlite(path)
  await expect(opening).rejects.toThrow(error)
  await expect(opening).rejects.toThrow(message)
  expect(hash()).toBe(before)
}

it('follows a link to a store or to a folder, and creates no file through a link', async () => {
  const link = join(folder, 'link.db')
  symlinkSync(path, link)
  const opening = openSqlite(link)
  await expect(opening).rejects.toThrow(StoreForeignError)
  await expect(opening).rejects.toThrow(/is a link to a file that does not exist/)
  expect(existsSync(path)).toBe(false)
  await madeStore()
  await (await openSqlite(link)).close()
  symlinkSync(folder, join(folder, 'data'))
  await (await openSqlite(join(folder, 'data', 'new.db'))).close()
  expect(existsSync(join(folder, 'new.db'))).toBe(true)
})

/** A store with some tasks in all kinds of states, closed. */
async function madeStore(count = 100): Promise<void> {
  const store = await openSqlite(path)
  await store.enqueue(Array.from({ length: count }, (_, index) => ({ id: `t${index}`, kind: 'k', payload: '{}' })))
  const { tasks } = await store.claim({ worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['k'] }], limit: 2, isIdle: true })
  const [first] = tasks
  if (first) {
    const attempt = { attempt: 1, startedAt: 1, endedAt: 2, worker: 'w' }
    await store.settle([
      { id: first.id, token: first.token, outcome: { type: 'dead', reason: 'final_error' }, attempt },
    ])
  }
  await store.close()
}

describe('opening a SQLite store', () => {
  it('takes the URL that the command takes', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-'))
    const store = await openSqlite(`sqlite://${folder}/by-url.db`)
    await store.close()
    expect(readdirSync(folder)).toEqual(['by-url.db'])
    await (await openSqlite(`sqlite:${folder}/by-url.db`, { create: false })).close()
    rmSync(folder, { recursive: true })
  })

  it.each(['sqlite://redrive.db', 'postgres://user:secret@host/db', 'file:redrive.db', 'SQLITE:', 'sqlite::memory:'])(
    "refuses '%s', and does not repeat its password",
    async url => {
      const refused: unknown = await openSqlite(url).catch(error => error)
      expect(refused).toBeInstanceOf(OptionError)
      expect(String(refused)).not.toContain('secret')
    },
  )

  it('with `create: false`, does not create a missing store', async () => {
    const missing = join(mkdtempSync(join(tmpdir(), 'redrive-')), 'folder', 'missing.db')
    await expect(openSqlite(missing, { create: false })).rejects.toThrow(`There is no store at '${missing}'.`)
    expect(existsSync(dirname(missing))).toBe(false)
  })

  it.each([undefined, null, 5])('refuses %j in place of a path', async path => {
    await expect(openSqlite(path as never)).rejects.toThrow(
      "'path' names no file. Pass a path such as '.redrive/redrive.db'",
    )
  })

  it('refuses an option that it does not know', async () => {
    await expect(openSqlite('x.db', { creat: false } as object)).rejects.toThrow("Did you mean 'create'?")
  })

  it.each(['', ':memory:'])("refuses '%s', which is no file", async nowhere => {
    await expect(openSqlite(nowhere)).rejects.toMatchObject({ code: 'invalid_option', option: 'path' })
  })

  it('makes the file, and the folder it is in', async () => {
    const deep = join(folder, 'a', 'b', 'redrive.db')
    const store = await openSqlite(deep)
    await store.close()
    expect(existsSync(deep)).toBe(true)
  })

  it('finds everything that was there', async () => {
    await madeStore()
    const store = await openSqlite(path)
    expect(await store.count({})).toMatchObject({ waiting: 98, running: 1, dead: 1 })
    expect(await store.ledger('t0')).toMatchObject([{ outcome: 'dead', attempt: 1, startedAt: 1, endedAt: 2 }])
    await store.close()
  })

  it('many times at once makes one store', async () => {
    const stores = await Promise.all(Array.from({ length: 8 }, () => openSqlite(path)))
    await Promise.all(stores.map(store => store.enqueue([{ kind: 'k', payload: '{}' }])))
    expect(await stores[0]?.count({})).toMatchObject({ waiting: 8 })
    await Promise.all(stores.map(store => store.close()))
  })

  it('takes an empty file for a new one', async () => {
    writeFileSync(path, '')
    const store = await openSqlite(path)
    expect(await store.count({})).toMatchObject({ waiting: 0 })
    await store.close()
  })

  it('waits for the disk at each commit, and never within SQLite for a lock', async () => {
    const store = await openSqlite(path)
    const pragmas = await store.once('look', db =>
      ['synchronous', 'journal_mode', 'busy_timeout'].map(name => db.pragma(name, { simple: true })),
    )
    expect(pragmas).toEqual([2, 'wal', 0])
    await store.close()
  })
})

describe('a file that cannot be opened is refused, and left as it is:', () => {
  it.each(['not a database', '\0'.repeat(5000), 'S'])('a file that starts with %j', async text => {
    writeFileSync(path, text)
    await refused(StoreForeignError, /not a Redrive store: it is not a SQLite database/)
  })

  it('a database of somebody else', async () => {
    const db = new Database(path)
    db.exec('CREATE TABLE task (id); INSERT INTO task VALUES (1)')
    db.close()
    await refused(StoreForeignError, /another application/)
    expect(existsSync(`${path}-wal`)).toBe(false)
  })

  it('a schema that is newer than the code', async () => {
    await madeStore()
    const db = new Database(path)
    db.pragma(`user_version = ${MIGRATIONS.length + 1}`)
    db.pragma('wal_checkpoint(TRUNCATE)')
    db.close()
    const [newer, latest] = [MIGRATIONS.length + 1, MIGRATIONS.length]
    const message = `schema version ${newer}, and this Redrive knows versions up to ${latest}.*Update redrive`
    await refused(StoreNewerError, new RegExp(message))
  })

  it('a file that was cut short', async () => {
    await madeStore()
    writeFileSync(path, readFileSync(path).subarray(0, 8192 + 100))
    await refused(StoreDamagedError, /damaged/)
  })

  it('a file that ends within its header', async () => {
    await madeStore()
    writeFileSync(path, readFileSync(path).subarray(0, 50))
    await refused(StoreDamagedError, /ends within its header/)
  })

  it('a file with garbage in the middle', async () => {
    await madeStore(1000)
    const file = openSync(path, 'r+')
    const middle = Math.floor(statSync(path).size / 8192) * 4096
    writeSync(file, Buffer.alloc(4096, 0xaa), 0, 4096, middle)
    closeSync(file)
    await refused(StoreDamagedError, /damaged/)
  })
})

describe('a store whose file', () => {
  const task = { kind: 'k', payload: '{}' }

  it('was removed takes nothing more, since it would be lost', async () => {
    const store = await openSqlite(path)
    await store.enqueue([task])
    rmSync(path)
    await expect(store.enqueue([task])).rejects.toThrow(StoreReplacedError)
    await store.close()
  })

  it('was replaced, by a backup say, takes nothing more either, and leaves the other as it is', async () => {
    const other = await openSqlite(`${path}.backup`)
    await other.close()
    const store = await openSqlite(path)
    await store.enqueue([task])
    renameSync(`${path}.backup`, path)
    const before = hash()
    await expect(store.enqueue([task])).rejects.toThrow(StoreReplacedError)
    await store.close()
    expect(hash()).toBe(before)
  })

  it('was named from where the process was then is found from elsewhere too', async () => {
    const store = await openSqlite(relative(process.cwd(), path))
    const before = process.cwd()
    process.chdir(folder)
    const enqueued = await store.enqueue([task]).finally(() => process.chdir(before))
    expect(enqueued).toMatchObject([{ isNew: true }])
    await store.close()
  })

  it('may not be written to says so in a way that can be retried', async () => {
    const store = await openSqlite(path)
    await expect(store.once('k', db => db.pragma('query_only = on'))).rejects.toThrow(StoreReadOnlyError)
    await expect(store.enqueue([task])).rejects.toThrow(StoreReadOnlyError)
    await store.close()
  })
})

describe('the files of a store', () => {
  let umask: number
  beforeEach(() => {
    // The most permissive: what nobody forbids here is forbidden by the store alone.
    umask = process.umask(0)
  })
  afterEach(() => void process.umask(umask))

  const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

  it('are readable by their owner alone, and so is the folder that it makes', async () => {
    path = join(folder, 'new', 'redrive', 'redrive.db')
    for (let opened = 0; opened < 2; opened++) {
      const store = await openSqlite(path)
      await store.enqueue([{ kind: 'k', payload: '{}' }])
      expect(['', '-wal', '-shm'].map(suffix => modeOf(path + suffix))).toEqual(['600', '600', '600'])
      await store.close()
    }
    expect([join(folder, 'new'), join(folder, 'new', 'redrive')].map(modeOf)).toEqual(['700', '700'])
  })

  it('keep the permissions that somebody gave them, as do folders that exist', async () => {
    await madeStore()
    chmodSync(path, 0o640)
    chmodSync(folder, 0o750)
    const store = await openSqlite(path)
    await store.enqueue([{ kind: 'k', payload: '{}' }])
    expect(['', '-wal', '-shm'].map(suffix => modeOf(path + suffix))).toEqual(['640', '640', '640'])
    await store.close()
    expect([path, folder].map(modeOf)).toEqual(['640', '750'])
  })

  it('keep the permissions of an empty file that was there before', async () => {
    writeFileSync(path, '', { mode: 0o660 })
    await madeStore()
    expect(modeOf(path)).toBe('660')
  })
})

describe('a closed store', () => {
  it('has done what it was asked before, and refuses what comes after', async () => {
    const store = await openSqlite(path)
    const before = store.enqueue([{ kind: 'k', payload: '{}' }])
    const closed = store.close()
    await expect(store.enqueue([{ kind: 'k', payload: '{}' }])).rejects.toThrow(StoreClosedError)
    await expect(store.get('x')).rejects.toThrow(StoreClosedError)
    expect(await before).toMatchObject([{ isNew: true }])
    await closed
  })

  it('can be closed twice', async () => {
    const store = await openSqlite(path)
    await store.close()
    await store.close()
  })
})
