import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { fillForViews, markGroups } from '../../../test/view-contract.js'
import { StoreNewerError } from '../contract/errors.js'
import { openSqlite } from './internal.js'

import { migrate } from './open-file.js'
import { MIGRATIONS } from './schema.js'

/** The next release adds a column, and a table that cannot be made twice. */
const STEP = 'ALTER TABLE task ADD COLUMN shade TEXT; CREATE TABLE shade (name TEXT PRIMARY KEY) STRICT;'

let folder: string
let path: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  path = join(folder, 'redrive.db')
  const store = await openSqlite(path)
  await fillForViews(store)
  await markGroups(store)
  await store.close()
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Opens the file as a release with one more migration does, and returns its version and all its rows. */
function afterStep(step: string): { version: unknown; rows: Record<string, unknown[]> } {
  const db = new Database(path)
  try {
    migrate(db, path, [...MIGRATIONS, step])
    return { version: db.pragma('user_version', { simple: true }), rows: rowsIn(db) }
  } finally {
    db.close()
  }
}

function rowsIn(db: Database.Database): Record<string, unknown[]> {
  const tables = db.prepare<[], string>(`SELECT name FROM sqlite_master WHERE type = 'table'`).pluck().all()
  return Object.fromEntries(tables.map(table => [table, db.prepare(`SELECT * FROM ${table}`).all()]))
}

function rows(): Record<string, unknown[]> {
  const db = new Database(path, { readonly: true })
  const found = rowsIn(db)
  db.close()
  return found
}

it('a file of the release before is upgraded where it stands, with all that it holds, and once', async () => {
  const { task = [], ...others } = rows()
  expect(task).toHaveLength(12)
  const upgraded = {
    version: MIGRATIONS.length + 1,
    rows: { ...others, task: task.map(row => Object.assign({}, row, { shade: null })), shade: [] },
  }
  expect(afterStep(STEP)).toEqual(upgraded)
  expect(afterStep(STEP)).toEqual(upgraded)
  await expect(openSqlite(path)).rejects.toThrow(StoreNewerError)
})

it('a migration that fails has changed nothing, and the file stays open to the release before', async () => {
  const before = rows()
  expect(() => afterStep(`${STEP} DELETE FROM absent;`)).toThrow('no such table: absent')
  expect(rows()).toEqual(before)
  const store = await openSqlite(path)
  expect(await store.count({})).toMatchObject({ waiting: 1, succeeded: 4 })
  await store.close()
})
