import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { openSqlite } from './open-sqlite.js'
import { MIGRATIONS } from './schema.js'
import { Stats } from './stats.js'

it('reads tasks through the indexes of those that are due, in their order: however many there are, few are read', () => {
  const db = new Database(':memory:')
  for (const migration of MIGRATIONS) db.exec(migration)
  const texts: string[] = []
  const prepare = db.prepare.bind(db)
  // Only what is prepared is of interest.
  Object.assign(db, { prepare: (text: string) => prepare(texts[texts.push(text) - 1] ?? '') })
  new Stats(db)
  const plans = texts.flatMap(text => {
    const named = [...text.matchAll(/:(\w+)/g)].map(([, name]) => [name, 1])
    const values = named.length > 0 ? [Object.fromEntries(named)] : Array.from(text.matchAll(/\?/g), () => 1)
    return prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${text}`).all(...values)
  })
  const onTasks = plans.map(({ detail }) => detail).filter(detail => /\btask\b/.test(detail))
  expect(onTasks).toEqual([
    'SEARCH task USING COVERING INDEX task_budgeted_lane (lane=?)',
    // Of lanes that stop at their dead letters.
    'SCAN task USING INDEX task_alone',
    'SEARCH task USING INDEX task_scheduled (next_at<?)',
    ...Array.from({ length: 4 }, () => 'SEARCH task USING INDEX task_ready (lane=?)'),
    'SEARCH task USING INDEX task_scheduled (next_at<?)',
    'SCAN task USING INDEX task_alone',
    'SEARCH task USING INDEX task_budgeted (budget=? AND next_at<?)',
  ])
  expect(plans.filter(({ detail }) => detail.includes('FOR ORDER BY'))).toEqual([])
  db.close()
})

it('shares the tasks that it looks at among kinds, so that many lanes of one do not hide the others', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-stats-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const store = await openSqlite(join(folder, 'store.db'))
  onTestFinished(() => store.close())
  const keyed = Array.from({ length: 20 }, (_, n) => ({ kind: 'keyed', key: `t${n}`, payload: '{}' }))
  await store.enqueue([...keyed, ...keyed, ...Array.from({ length: 8 }, () => ({ kind: 'plain', payload: '{}' }))])
  const kinds = await store.transaction(db => new Stats(db).read(Date.now(), 10).kinds)
  expect(Object.fromEntries(kinds.map(({ kind, waiting, ready }) => [kind, { waiting, ready }]))).toEqual({
    keyed: { waiting: 40, ready: 20 },
    plain: { waiting: 8, ready: 5 },
  })
})
