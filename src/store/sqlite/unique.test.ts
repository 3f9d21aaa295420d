import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import type { UniqueKey } from '../internal.js'
import { openSqlite } from './internal.js'

const KEEP: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'keep' }
const STORES = 4

it('of 1000 concurrent transactions that enqueue one key, half of which roll back, exactly one adds a task', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-unique-'))
  const path = join(folder, 'redrive.db')
  const stores = await Promise.all(Array.from({ length: STORES }, () => openSqlite(path)))
  onTestFinished(async () => {
    await Promise.all(stores.map(store => store.close()))
    rmSync(folder, { recursive: true })
  })
  const rolledBack = new Error('rolled back')
  const outcomes = await Promise.allSettled(
    Array.from({ length: 1000 }, (_, n) => {
      const store = stores[n % STORES] as (typeof stores)[number]
      return store.transaction(db => {
        const [answer] = store.enqueueIn(db, [{ kind: 'k', payload: String(n), unique: KEEP }])
        // So that each store has both.
        if (Math.floor(n / STORES) % 2 === 0) throw rolledBack
        return answer?.outcome
      })
    }),
  )
  const failures = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason] : []))
  expect(new Set(failures)).toEqual(new Set([rolledBack]))
  expect(failures).toHaveLength(500)
  const created = outcomes.filter(outcome => outcome.status === 'fulfilled' && outcome.value === 'created')
  expect(created).toHaveLength(1)
  const [store] = stores as [(typeof stores)[number]]
  expect(await store.count({})).toMatchObject({ waiting: 1 })
  const [task] = (await store.list({}, { limit: 2 })).items
  expect(Math.floor(Number(task?.payload) / STORES) % 2).toBe(1)
  await checkInvariants(store)
})
