import { afterAll, beforeAll } from 'vitest'
import { type PostgresServer, type Settings, startPostgres } from '../services/postgres.js'

/** A PostgreSQL of a test file's own, to do harm to, with the server's own defaults: what it has committed is on disk. */
export function ownPostgres(settings: Settings = {}): { readonly server: PostgresServer } {
  let server: PostgresServer | undefined
  beforeAll(async () => {
    server = await startPostgres({ max_connections: '200', ...settings })
  }, 120_000)
  afterAll(() => server?.close())
  return {
    get server() {
      if (server === undefined) throw new Error('PostgreSQL is not started before the tests begin.')
      return server
    },
  }
}
