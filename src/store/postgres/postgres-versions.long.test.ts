import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { storeConformance } from '../../../test/conformance/store-conformance.js'
import { emptyPostgresStore } from '../../../test/services/empty-postgres-store.js'
import { FAST, type PostgresServer, startPostgres } from '../../../test/services/postgres.js'
import { canFetchPostgres, POSTGRES_RELEASES } from '../../../test/services/postgres-release.js'

if (!canFetchPostgres)
  process.stdout.write('SKIPPED: other versions of PostgreSQL. They are fetched on Linux on x64 alone.\n')

describe.skipIf(!canFetchPostgres).each(Object.entries(POSTGRES_RELEASES))('on PostgreSQL %s', (version, release) => {
  let server: PostgresServer | undefined
  let pool: pg.Pool | undefined
  beforeAll(async () => {
    server = await startPostgres(FAST, release)
    pool = new pg.Pool({ connectionString: server.url })
  }, 120_000)
  afterAll(async () => {
    await pool?.end()
    await server?.close()
  })

  async function open() {
    if (pool === undefined) throw new Error('PostgreSQL is not started before the tests begin.')
    return emptyPostgresStore(pool)
  }

  it('and no other', async () => {
    expect((await pool?.query('SHOW server_version'))?.rows).toEqual([{ server_version: version }])
  })

  for (const { name, run } of storeConformance(open)) it(name, run)
})
