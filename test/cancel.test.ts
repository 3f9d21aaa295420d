import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineTask, TaskQueue, Worker } from 'redrive/task'
import { afterEach, describe, expect, it } from 'vitest'
import type { StoreContract } from '../src/store/internal.js'
import { openPostgres } from '../src/store/postgres/internal.js'
import { openSqlite } from '../src/store/sqlite/internal.js'
import { freshDatabase } from './services/fresh-database.js'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** Opens the same store any number of times, as other processes do. */
const STORES: readonly { readonly name: string; readonly prepare: () => Promise<() => Promise<StoreContract>> }[] = [
  {
    name: 'SQLite',
    prepare: async () => {
      const folder = mkdtempSync(join(tmpdir(), 'redrive-cancel-'))
      folders.push(folder)
      return () => openSqlite(join(folder, 'redrive.db'))
    },
  },
  {
    name: 'PostgreSQL',
    prepare: async () => {
      const url = await freshDatabase()
      return () => openPostgres(url)
    },
  },
]

describe.each(STORES)('a running task that is cancelled through another connection to $name', ({ prepare }) => {
  it('ends without waiting for a heartbeat', { timeout: 60_000 }, async () => {
    const open = await prepare()
    const [here, elsewhere] = [await open(), await open()]
    const reasons: unknown[] = []
    const hang = defineTask('hang', {
      handler: (_: null, { signal }) =>
        new Promise<void>((_, reject) =>
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason)
            reject(signal.reason)
          }),
        ),
    })
    // With a lease of an hour, the next heartbeat is twenty minutes away.
    const worker = new Worker(here, { tasks: [hang], lease: '1h' })
    const queue = new TaskQueue(elsewhere)
    const { id } = await queue.enqueue(hang, null)
    await worker.start()
    await expect.poll(async () => (await queue.get(id))?.status, { timeout: 20_000 }).toBe('running')
    await queue.cancel(id)
    await expect.poll(() => reasons, { timeout: 20_000 }).toMatchObject([{ code: 'task_cancelled' }])
    await expect.poll(async () => (await queue.get(id))?.status, { timeout: 20_000 }).toBe('cancelled')
    await worker.stop()
    await here.close()
    await elsewhere.close()
  })
})
