import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { StoreForeignError, StoreNewerError, StoreNotReadyError } from '../errors.js'
import { answerOf, type Database, inSchema, rowsOf } from './database.js'
import type { SqlClient } from './driver.js'

/** What brings a schema from each version to the next. Never change one that was released: add another. */
const MIGRATIONS = readMigrations(join(import.meta.dirname, 'migrations'))

/** The version that this code brings a schema to. */
export const SCHEMA_VERSION = MIGRATIONS.length

/**
 * Brings the schema to the version that this code knows. However many do so at once, it is done once; interrupted, it has
 * not begun. A schema that is up to date is only read, so that a role without the right to make tables may open it.
 */
export async function migrate(database: Database, mayMigrate: boolean): Promise<void> {
  const found = await database.connected(client => versionOf(database, client))
  if (found === SCHEMA_VERSION) return
  if (!mayMigrate) throw new StoreNotReadyError(database.name, found, SCHEMA_VERSION)
  await database.transaction(async client => {
    await client.query(`SELECT pg_advisory_xact_lock(hashtext('redrive.migrate'), hashtext($1))`, [database.schema])
    const version = await versionOf(database, client)
    if (version === SCHEMA_VERSION) return
    await client.query(`CREATE SCHEMA IF NOT EXISTS ${database.schema}`)
    for (const sql of MIGRATIONS.slice(version)) await client.query(inSchema(sql, database.schema))
    await client.query(inSchema(RECORD_VERSION, database.schema))
    await client.query(inSchema('UPDATE redrive.schema_version SET version = $1', database.schema), [SCHEMA_VERSION])
  })
}

const RECORD_VERSION = /* sql */ `
  CREATE TABLE IF NOT EXISTS redrive.schema_version (version int NOT NULL);
  INSERT INTO redrive.schema_version SELECT 0 WHERE NOT EXISTS (SELECT FROM redrive.schema_version)`

/** Which version a schema has: 0 if it is not there, or empty. One that is not ours, or newer, is refused. */
async function versionOf({ schema, name }: Database, client: SqlClient): Promise<number> {
  const found = answerOf(rowsOf(await client.query(FIND, [schema])))
  if (found === 'nothing') return 0
  if (found === 'foreign') throw new StoreForeignError(name, 'has tables, and none that says which version it is')
  const read = await client.query(inSchema('SELECT version AS answer FROM redrive.schema_version', schema), [])
  const version = Number(answerOf(rowsOf(read)))
  if (version > SCHEMA_VERSION) throw new StoreNewerError(name, version, SCHEMA_VERSION)
  return version
}

const FIND = /* sql */ `
  SELECT CASE
    WHEN bool_or(relname = 'schema_version') THEN 'ours'
    WHEN count(*) > 0 THEN 'foreign'
    ELSE 'nothing' END AS answer
  FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`

function readMigrations(folder: string): string[] {
  const files = readdirSync(folder).sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
  return files.map(file => readFileSync(join(folder, file), 'utf8'))
}
