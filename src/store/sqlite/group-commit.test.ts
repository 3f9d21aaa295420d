import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { StoreFullError } from '../contract/errors.js'
import { GroupCommit } from './group-commit.js'

let folder: string
let db: Database.Database
let commits: GroupCommit
let transactions: number
let rollbacks: number

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  transactions = 0
  rollbacks = 0
  const path = join(folder, 'test.db')
  const verbose = (text?: unknown) => {
    if (text === 'COMMIT') transactions++
  }
  db = new Database(path, { timeout: 0, verbose })
  db.pragma('journal_mode = WAL')
  db.exec('CREATE TABLE t (x INT PRIMARY KEY, filler TEXT) STRICT')
  commits = new GroupCommit(db, path, () => rollbacks++)
})
afterEach(() => {
  vi.useRealTimers()
  db.close()
  rmSync(folder, { recursive: true })
})

const insert = (x: number, size = 1) =>
  commits.write(() => db.prepare('INSERT INTO t VALUES (?, ?)').run(x, 'x'.repeat(size)).changes)
const rows = () => db.prepare('SELECT x FROM t ORDER BY x').pluck().all()
/** On a busy machine a transaction may seem long, and end early. For the rest of the test, none does. */
const stopTime = () => void vi.useFakeTimers({ toFake: ['performance'] })

describe('a group commit', () => {
  it('shares a transaction between all calls of a turn', async () => {
    stopTime()
    await Promise.all(Array.from({ length: 100 }, (_, x) => insert(x)))
    expect(transactions).toBe(1)
    expect(rows()).toHaveLength(100)
  })

  it('takes along what is called by what runs in that turn', async () => {
    stopTime()
    const nested = Promise.resolve().then(() => Promise.all([insert(2), Promise.resolve().then(() => insert(3))]))
    await Promise.all([insert(1), nested])
    expect(transactions).toBe(1)
  })

  it('resolves after the commit, not before', async () => {
    stopTime()
    const other = new Database(db.name, { readonly: true })
    const seen: unknown[] = []
    const count = () => other.prepare('SELECT count(*) FROM t').pluck().get()
    await Promise.all([1, 2, 3].map(x => insert(x).then(() => seen.push(count()))))
    expect(seen).toEqual([3, 3, 3])
    other.close()
  })

  it('lets a call that throws fail alone, and undoes all of it', async () => {
    stopTime()
    const bad = commits.write(() => {
      db.prepare('INSERT INTO t VALUES (?, ?)').run(50, '')
      throw new Error('a bug')
    })
    const settled = await Promise.allSettled([insert(1), bad, insert(2), insert(1), insert(3)])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'])
    await expect(bad).rejects.toThrow('a bug')
    expect(rows()).toEqual([1, 2, 3])
    expect(rollbacks).toBeGreaterThan(0)
    expect(transactions).toBe(1)
  })

  describe('of calls that are done together', () => {
    const calls: (readonly number[])[] = []
    const insertAll = (all: readonly number[]) => {
      calls.push(all)
      return all.map(x => db.prepare('INSERT INTO t VALUES (?, ?)').run(x, '').changes + x)
    }
    const add = (x: number) => commits.writeTogether(insertAll, x)
    beforeEach(() => {
      calls.length = 0
    })

    it('makes one of those that follow each other, and gives each its own result', async () => {
      stopTime()
      expect(await Promise.all([add(1), add(2), insert(3), add(4), add(5)])).toEqual([2, 3, 1, 5, 6])
      expect(calls).toEqual([
        [1, 2],
        [4, 5],
      ])
      expect(transactions).toBe(1)
    })

    it('lets one that throws fail alone', async () => {
      stopTime()
      const settled = await Promise.allSettled([add(1), add(2), add(1), add(3)])
      expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
      expect(rows()).toEqual([1, 2, 3])
    })

    it('does at most a thousand at once', async () => {
      stopTime()
      await Promise.all(Array.from({ length: 1500 }, (_, x) => add(x)))
      expect(calls.map(all => all.length)).toEqual([1000, 500])
    })
  })

  it('calls what is not repeatable once, also when another call throws', async () => {
    let calls = 0
    const once = commits.write(() => ++calls, { isRepeatable: false })
    await Promise.allSettled([insert(1), once, insert(1)])
    expect(calls).toBe(1)
  })

  it('fails as a whole when there is no room, writes nothing, and works again when there is', async () => {
    await insert(0)
    const pages = Number(db.pragma('page_count', { simple: true }))
    db.pragma(`max_page_count = ${pages + 2}`)
    const settled = await Promise.allSettled([insert(1), insert(2), insert(3, 100_000)])
    for (const { status, reason } of settled as PromiseRejectedResult[]) {
      expect(status).toBe('rejected')
      expect(reason).toBeInstanceOf(StoreFullError)
    }
    expect(rows()).toEqual([0])
    expect(db.inTransaction).toBe(false)

    db.pragma('max_page_count = 1000000')
    await Promise.all([insert(1), insert(2, 100_000)])
    expect(rows()).toEqual([0, 1, 2])
  })

  it('waits for a lock without stopping the event loop', async () => {
    const other = new Database(db.name, { timeout: 0 })
    other.exec('BEGIN IMMEDIATE')
    let turns = 0
    const ticking = setInterval(() => {
      if (++turns === 30) other.exec('COMMIT')
    }, 1)
    await Promise.all([insert(1), insert(2)])
    clearInterval(ticking)
    expect(turns).toBeGreaterThanOrEqual(30)
    expect(rows()).toEqual([1, 2])
    other.close()
  })

  it('keeps its transactions short, however much is asked for at once', async () => {
    const slow = () =>
      commits.write(() => {
        for (const end = performance.now() + 5; performance.now() < end; );
      })
    await Promise.all(Array.from({ length: 20 }, slow))
    expect(transactions).toBeGreaterThan(2)
  })
})
