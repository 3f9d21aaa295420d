import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { freshDatabase } from '../../test/services/fresh-database.js'
import type { StoreContract } from './internal.js'
import { openPostgres } from './postgres/internal.js'
import { openSqlite } from './sqlite/internal.js'

const folder = mkdtempSync(join(tmpdir(), 'redrive-refused-'))
afterAll(() => rmSync(folder, { recursive: true }))

const STORES: readonly [string, () => Promise<StoreContract>][] = [
  ['SQLite', () => openSqlite(join(folder, 'redrive.db'))],
  ['PostgreSQL', async () => openPostgres(await freshDatabase())],
]

it.each(STORES)('%s says of a value that it can never take that asking again will not help', async (_, open) => {
  const store = await open()
  await store.enqueue([{ id: 'a', kind: 'k', payload: '1' }])
  const { tasks, now } = await store.claim({
    worker: 'w',
    leaseMs: 1000,
    rooms: [{ kinds: ['k'] }],
    limit: 1,
    isIdle: true,
  })
  const attempt = { attempt: 1, startedAt: Number.NaN, endedAt: now, worker: 'w' }
  const [task] = tasks
  const settlement = { id: 'a', token: task?.token ?? '', outcome: { type: 'later', delayMs: 1 }, attempt } as const
  await expect(store.settle([settlement])).rejects.toMatchObject({ code: 'store_refused' })
  expect(await store.get('a')).toMatchObject({ status: 'running' })
  await store.close()
})
