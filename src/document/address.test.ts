import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import Database from 'better-sqlite3'
import { MongoClient } from 'mongodb'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openMongodbSource, openPostgresSource, openSqliteSource } from './index.js'

describe('the address of a source has no credentials', () => {
  it.each([
    ['postgres://ann:secret@db:5433/app?sslmode=require', 'postgres://db:5433/app'],
    ['postgresql://db/app', 'postgres://db/app'],
    ['postgres://DB:5432/app', 'postgres://db/app'],
    ['postgres://ann:secret@/app?host=/run/postgresql', 'postgres://localhost/app?host=/run/postgresql'],
    ['postgres://ann:se/cret@db/app', 'postgres:'],
  ])('%s', async (url, address) => {
    const source = await openPostgresSource(new pg.Pool({ connectionString: url }))
    expect(source.address).toBe(address)
  })

  it('a pool with options of its own', async () => {
    const source = await openPostgresSource(
      new pg.Pool({ host: 'db', port: 5433, database: 'app', password: 'secret' }),
    )
    expect(source.address).toBe('postgres://db:5433/app')
  })

  it('a MongoDB database', async () => {
    const client = new MongoClient('mongodb://ann:secret@one:27017,two:27018/app?replicaSet=rs')
    expect((await openMongodbSource(client.db())).address).toBe('mongodb://one:27017,two:27018/app')
  })

  it('a MongoDB database, in whatever order its servers are named', async () => {
    const client = new MongoClient('mongodb://two:27018,ONE/app?replicaSet=rs')
    expect((await openMongodbSource(client.db())).address).toBe('mongodb://one:27017,two:27018/app')
  })

  it('a SQLite file, by its whole path', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'redrive-address-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const path = join(folder, 'app.db')
    new Database(path).close()
    const source = await openSqliteSource(relative(process.cwd(), path))
    expect(source.address).toBe(`sqlite:${path}`)
    await source.close()
  })
})
