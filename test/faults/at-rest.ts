import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { openStore } from './open-store.js'

const OBSERVER = 'observer'

/** Opens a store to look at what processes do that are killed. `atRest` does not wait for its connections. */
export function observe(url: string): ReturnType<typeof openStore> {
  if (url.startsWith('sqlite:')) return openStore(url)
  const named = new URL(url)
  named.searchParams.set('application_name', OBSERVER)
  return openStore(named.href, { listen: false })
}

/**
 * Resolves when the server has none of the connections that killed processes have left it with. It goes on with what they had
 * sent, and may commit it between two reads of a test. A statement that it has not read yet is not seen to be active, so all
 * of their connections have to be gone.
 */
export async function atRest(url: string): Promise<void> {
  if (url.startsWith('sqlite:')) return
  const client = new pg.Client({ connectionString: url, application_name: OBSERVER })
  await client.connect()
  const others = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
    AND application_name <> $1`
  while ((await client.query(others, [OBSERVER])).rowCount !== 0) await sleep(5)
  await client.end()
}
