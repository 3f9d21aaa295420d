import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openSqlite, type SqliteStore } from '../store/sqlite/internal.js'

import { migrate } from '../store/sqlite/open-file.js'
import { MIGRATIONS } from '../store/sqlite/schema.js'
import { defineTask, TaskQueue, Worker } from './index.js'

let folder: string
let store: SqliteStore
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  store = await openSqlite(join(folder, 'redrive.db'))
})
afterEach(async () => {
  await store.close()
  rmSync(folder, { recursive: true })
})

/** Migrates the store as the next release might do. */
function migrateWith(step: string): void {
  const path = join(folder, 'redrive.db')
  const db = new Database(path)
  migrate(db, path, [...MIGRATIONS, step])
  db.close()
}

it('a worker whose store was migrated by a newer release ends with that error, and hands its work over', async () => {
  let begin = () => {}
  const begun = new Promise<void>(resolve => {
    begin = resolve
  })
  const wait = defineTask('wait', {
    handler: (_: null, { signal }) => {
      begin()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  })
  const { id } = await new TaskQueue(store).enqueue(wait, null)
  const worker = new Worker(store, { tasks: [wait], lease: '150ms' })
  await worker.start()
  await begun
  migrateWith('ALTER TABLE task ADD COLUMN shade TEXT')
  await expect(worker.stopped).rejects.toMatchObject({ name: 'StoreNewerError', code: 'store_newer' })
  expect(await store.get(id)).toMatchObject({ status: 'waiting', attempts: 0, losses: 0 })
})

it('says that the store is newer where a column is gone', async () => {
  const noop = defineTask('noop', { handler: () => 1 })
  const worker = new Worker(store, { tasks: [noop], lease: '150ms' })
  await worker.start()
  migrateWith('ALTER TABLE lane RENAME COLUMN waiting TO queued')
  const newer = { name: 'StoreNewerError', code: 'store_newer' }
  await expect(worker.stopped).rejects.toMatchObject(newer)
  await expect(new TaskQueue(store).enqueue(noop, null)).rejects.toMatchObject(newer)
  await expect(
    store.claim({ worker: 'w', leaseMs: 1, limit: 1, rooms: [{ kinds: ['noop'] }], isIdle: true }),
  ).rejects.toMatchObject(newer)
  await expect(store.stats()).rejects.toMatchObject(newer)
})
