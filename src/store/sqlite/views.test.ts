import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  expectedAttempts,
  expectedGroups,
  expectedLetters,
  fillForViews,
  markGroups,
  VIEW_COLUMNS,
} from '../../../test/view-contract.js'
import { openSqlite, type SqliteStore } from './internal.js'

let folder: string
let store: SqliteStore
let db: Database.Database
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  const path = join(folder, 'redrive.db')
  store = await openSqlite(path)
  await fillForViews(store)
  db = new Database(path, { readonly: true })
})
afterAll(async () => {
  db.close()
  await store.close()
  rmSync(folder, { recursive: true })
})

it.each(Object.entries(VIEW_COLUMNS))('the view %s has these columns, in this order', (view, columns) => {
  const names = db.prepare(`SELECT * FROM ${view}`).columns()
  expect(names.map(({ name }) => name).join(' ')).toBe(columns)
})

it('has the figures of every failure group', async () => {
  const groups = db.prepare('SELECT * FROM failure_groups').all()
  expect(groups).toMatchObject([{ seen: 5, retrying: 1, dead: 1 }])
  expect(groups).toEqual(await expectedGroups(store))
})

it('has every attempt, those of successes included, and every dead letter', async () => {
  const attempts = db.prepare('SELECT * FROM attempts ORDER BY task, sequence').all()
  expect(attempts).toHaveLength(9)
  expect(new Set(attempts)).toEqual(new Set(await expectedAttempts(store)))
  expect(db.prepare('SELECT * FROM dead_letters').all()).toEqual(await expectedLetters(store))
})

it.each([
  "SELECT * FROM attempts WHERE task = 'dead'",
  "SELECT code, count(*) FROM dead_letters WHERE died_at > '2026' GROUP BY code",
])('reads no table as a whole: %s', query => {
  const plan = db.prepare<[], { detail: string }>(`EXPLAIN QUERY PLAN ${query}`).all()
  expect(plan.map(({ detail }) => detail).filter(detail => /^SCAN (task|ledger|lane)/.test(detail))).toEqual([])
})

it('has the state of every failure group', async () => {
  await markGroups(store)
  const groups = db.prepare('SELECT * FROM failure_groups').all()
  expect(new Set(groups)).toEqual(new Set(await expectedGroups(store)))
})
