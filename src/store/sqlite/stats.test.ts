import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
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
    const values = Array.from(text.matchAll(/\?/g), () => 1)
    return prepare<number[], { detail: string }>(`EXPLAIN QUERY PLAN ${text}`).all(...values)
  })
  const onTasks = plans.map(({ detail }) => detail).filter(detail => /\btask\b/.test(detail))
  expect(onTasks).toEqual([
    'SEARCH task USING INDEX task_ready (lane=?)',
    'SEARCH task USING INDEX task_scheduled (next_at<?)',
    'SCAN task USING INDEX task_alone',
  ])
  expect(plans.filter(({ detail }) => detail.includes('FOR ORDER BY'))).toEqual([])
  db.close()
})
