import { existsSync } from 'node:fs'
import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import { freshDatabase } from './fresh-database.js'
import { startPostgres } from './postgres.js'
import { postgresPrograms } from './postgres-programs.js'

async function valueFrom(url: string, sql: string): Promise<unknown> {
  const client = new Client(url)
  await client.connect()
  try {
    const { rows } = await client.query<[unknown]>({ text: sql, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

describe('the shared PostgreSQL', () => {
  it('gives everyone a database of their own', async () => {
    const urls = await Promise.all([freshDatabase(), freshDatabase()])
    await valueFrom(urls[0], 'CREATE TABLE mine (n int)')
    expect(await valueFrom(urls[0], `SELECT to_regclass('mine')::text`)).toBe('mine')
    expect(await valueFrom(urls[1], `SELECT to_regclass('mine')::text`)).toBeNull()
  })
})

describe('a PostgreSQL of our own', () => {
  it('keeps what was committed through a crash, on the same port, and leaves nothing behind', async () => {
    const server = await startPostgres({ work_mem: '5MB' })
    try {
      const url = await server.createDatabase()
      expect(await valueFrom(url, 'SHOW fsync')).toBe('on')
      expect(await valueFrom(url, 'SHOW work_mem')).toBe('5MB')

      await valueFrom(url, 'CREATE TABLE kept AS SELECT 7 AS n')
      await server.stop('immediate')
      await expect(valueFrom(url, 'SELECT n FROM kept')).rejects.toThrow('ECONNREFUSED')
      await server.start()
      expect(await valueFrom(url, 'SELECT n FROM kept')).toBe(7)
    } finally {
      await server.close()
    }
    expect(existsSync(server.folder)).toBe(false)
  }, 60_000)

  it('says what it could not start with', async () => {
    await expect(startPostgres({ shared_buffers: 'plenty' })).rejects.toThrow(/did not start:.*shared_buffers/s)
  }, 60_000)
})

describe('the programs of PostgreSQL', () => {
  it('come from the first place that has them', async () => {
    const usual = await postgresPrograms()
    expect(existsSync(`${usual}/initdb`)).toBe(true)
    expect(await postgresPrograms(() => ['/nowhere', usual])).toBe(usual)
  })
})
