import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openSqlite } from './index.js'
import { APPLICATION_ID, MIGRATIONS } from './schema.js'

let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-'))
  path = join(folder, 'redrive.db')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** A file of schema version 1, as its release wrote it: a success, a task that waits for its retry, and one that runs. */
function makeVersion1(): void {
  const db = new Database(path)
  db.exec(MIGRATIONS[0] ?? '')
  db.pragma(`application_id = ${APPLICATION_ID}`)
  db.pragma('user_version = 1')
  db.exec(/* sql */ `
    INSERT INTO lane (id, kind, category, key, paused, waiting, running, succeeded)
    VALUES (-1, 'k', '', '', 0, 0, 1, 1), (1, 'k', 'mail', 't', 0, 1, 0, 0);
    INSERT INTO task (seq, id, lane, state, priority, submitted_at, started_at, changed_at, next_at, entries, attempts,
                      worker, token, ran_from, ran_to, ran_attempt, result, payload)
    VALUES
      (1, 'done',    -1, 4, 0, 10, 10, 20, NULL, 1, 0, 'w1', NULL,      15, 20,   1,    '1',  '{}'),
      (2, 'retried',  1, 0, 0, 10, 10, 20, 30,   1, 1, NULL, NULL,      15, NULL, NULL, NULL, '{}'),
      (3, 'running', -1, 3, 0, 10, 10, 20, NULL, 0, 0, 'w1', '3.-1.n0', 20, NULL, NULL, NULL, '{}');
    INSERT INTO ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, delay_ms)
    VALUES (2, 1, 1, 15, 20, 'w1', 'retry', 10);
    INSERT INTO worker (id, until) VALUES ('w1', 9e15)`)
  db.close()
}

it('a file of version 1 is upgraded where it stands, with all that it holds', async () => {
  makeVersion1()
  const store = await openSqlite(path)
  expect(await store.count({})).toMatchObject({ waiting: 1, running: 1, succeeded: 1 })
  expect(await store.get('retried')).toMatchObject({
    category: 'mail',
    attempts: 1,
    nextAttemptAt: 30,
    value: undefined,
  })
  const attempt = { attempt: 1, startedAt: 15, endedAt: 20, worker: 'w1' }
  expect(await store.ledger('done')).toMatchObject([{ ...attempt, outcome: 'succeeded', category: undefined }])
  expect(await store.ledger('retried')).toMatchObject([{ ...attempt, outcome: 'retry', category: 'mail' }])

  const advanced = { type: 'advanced', to: 'next', value: '2', keep: true } as const
  const [settled] = await store.settle([{ id: 'running', token: '3.-1.n0', outcome: advanced, attempt }])
  expect(settled?.result).toBe('kept')
  expect(await store.get('running')).toMatchObject({ category: 'next', value: '2', status: 'running' })
  await store.close()
})
