import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openSqlite, type SqliteStore } from './index.js'

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

const ODD = ['"', "'", '\\', '\\"', '\\u0041', '\n', '\u0001', '\u2028', 'ü', '😀', '7', '{}', '$.a']

it('tasks that are added together keep their ids and payloads to the letter', async () => {
  const added = await store.enqueue(ODD.map(id => ({ id, kind: 'k', payload: JSON.stringify({ text: id }) })))
  expect(added).toEqual(ODD.map(id => ({ id, isNew: true, outcome: 'created' })))
  for (const id of ODD) expect(JSON.parse((await store.get(id))?.payload ?? '')).toEqual({ text: id })
})

it('of tasks that are added together, only those whose id is free are new, and each id once', async () => {
  const tasks = (ids: readonly string[], payload: string) => ids.map(id => ({ id, kind: 'k', payload }))
  await store.enqueue(tasks(['a', 'c'], '1'))
  const added = await store.enqueue(tasks(['a', 'b', 'c', 'd', 'd', 'e'], '2'))
  expect(added.map(({ isNew }) => isNew)).toEqual([false, true, false, true, false, true])
  expect(await store.enqueue(tasks(['a', 'b', 'c', 'd'], '3'))).toMatchObject(
    ['a', 'b', 'c', 'd'].map(id => ({ id, isNew: false, outcome: 'kept', status: 'waiting' })),
  )
  expect(await store.count({})).toMatchObject({ waiting: 5 })
  expect((await store.get('a'))?.payload).toBe('1')
  expect((await store.get('d'))?.payload).toBe('2')
})

it('tasks that differ are told apart, however they follow each other', async () => {
  const later = Date.now() + 60_000
  const given = [
    ...Array.from({ length: 5 }, () => ({ kind: 'k' })),
    ...Array.from({ length: 5 }, () => ({ kind: 'k', key: 'tenant' })),
    ...Array.from({ length: 5 }, () => ({ kind: 'k', priority: 2 })),
    ...Array.from({ length: 5 }, () => ({ kind: 'k', runAt: later })),
    ...Array.from({ length: 5 }, () => ({ kind: 'k', submittedAt: 5 })),
    ...Array.from({ length: 5 }, () => ({ kind: 'k', category: 'c', cost: { tokens: 2 } })),
    { kind: 'k', payload: JSON.stringify('x'.repeat(5000)) },
  ].map((task, n) => ({ payload: String(n), ...task }))
  const added = await store.enqueue(given)
  const ids = added.map(({ id }) => id)
  expect([...ids].sort()).toEqual(ids)
  for (const [n, { id, isNew }] of added.entries()) {
    const task = await store.get(id)
    const { cost: _, runAt, ...fields } = { runAt: task?.startedAt, cost: {}, ...given[n] }
    expect([isNew, task]).toMatchObject([true, { ...fields, nextAttemptAt: runAt }])
  }
})
