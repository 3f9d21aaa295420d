import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { consume, DocumentNotFoundError } from '../../dist/event/index.js'
import { openSqlite } from '../../dist/store/sqlite/index.js'

/** A store in a file of its own, for as long as `use` takes. */
export async function withStore(use) {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const store = await openSqlite(join(folder, 'redrive.db'))
  try {
    return await use(store)
  } finally {
    await store.close()
    rmSync(folder, { recursive: true })
  }
}

/** A consumer as an application starts it. Events that it is not ready for wait for an hour. */
export function startConsumer(bus, { queue }, { store, prefetch, handle }) {
  return consume(bus, queue, {
    service: 'bench',
    key: event => [event.id],
    store,
    concurrency: prefetch,
    policy: { backoff: { base: '1h', max: '1h' }, jitter: 'none', ttl: '24h' },
    handler: event => {
      if (!event.isReady) throw new DocumentNotFoundError('not yet')
      handle(event)
    },
  })
}

/** Resolves once so many events wait for their retry. */
export async function untilWaiting(store, count) {
  while ((await store.count({})).waiting < count) await sleep(20)
}

/** Publishes batches of events, each batch at once. */
export async function publish(bus, { type }, batches) {
  for (const batch of batches) await Promise.all(batch.map(event => bus.publish({ ...event, type })))
}
