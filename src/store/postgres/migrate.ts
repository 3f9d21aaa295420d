import { persist } from '../../attempt/index.js'
import { policy } from '../../policy/index.js'
import { StoreForbiddenError, StoreForeignError, StoreNewerError, StoreNotReadyError } from '../contract/errors.js'
import { answerOf, type Database, FORBIDDEN, inSchema, LOCKED, messageOf, sqlState } from './database.js'
import { findGrantees, grantAgain } from './grant.js'
import { type Release, thisRelease } from './release.js'
import type { PostgresTransaction } from './transaction.js'

/** The versions that a store has on record. */
interface Installed {
  readonly version: number
  readonly functions: number
  readonly hash: string
  readonly oldest: number
}

const EMPTY: Installed = { version: 0, functions: 0, hash: '', oldest: 0 }

/** A schema change that waits for a lock stops every call behind it, so it gives up soon and tries again later. */
const LOCK_TIMEOUT = '2s'
const UNTIL_UNLOCKED = /* @__PURE__ */ policy({ attempts: 20, backoff: { base: '1s', max: '1s' } })

/** A migration may take this many times as long as a call: it may build an index of a large table. */
const MIGRATION = 240

const CREATOR_ONLY = `Creating the store requires the privilege to create schemas: run 'redrive migrate' with a role that has it.`
const OWNER_ONLY = `Only the role that owns the store can migrate it to this release: run 'redrive migrate' as that role.`

/**
 * Brings a schema to the version of a release: changes its tables step by step, and replaces its functions as a whole, in
 * one transaction. However many processes do so at once, it happens once; interrupted, it has not begun. A schema that is
 * up to date is only read, so a role without the right to change it can open it. Newer functions are left alone.
 */
export async function migrate(database: Database, mayMigrate: boolean, release?: Release): Promise<void> {
  const ours = release ?? (await thisRelease())
  const found = await installed(database, (text, values) => database.query(text, values))
  if (isCurrent(database, found, ours)) return
  if (!mayMigrate) throw new StoreNotReadyError(database.name, problemOf(found, ours))
  try {
    await persist(
      () => database.transaction(tx => upgrade(database, tx, ours), { patience: MIGRATION, isOurs: true }),
      UNTIL_UNLOCKED,
      {
        classify: error => (sqlState(error) === LOCKED ? 'retryable' : 'final'),
      },
    )
  } catch (error) {
    if (sqlState(error) !== FORBIDDEN) throw error
    const advice = found.version === 0 ? CREATOR_ONLY : OWNER_ONLY
    throw new StoreForbiddenError(database.name, messageOf(error), { cause: error, advice })
  }
}

/** Whether a store needs no migration. Throws if this release cannot work with it. */
function isCurrent({ name }: Database, found: Installed, ours: Release): boolean {
  if (found.version > ours.version) {
    if (found.oldest <= ours.version) return true
    throw new StoreNewerError(name, found.version, ours.version)
  }
  if (found.version < ours.version || found.functions < ours.functionsVersion) return false
  // The same number with another hash is a build between two releases.
  return found.functions > ours.functionsVersion || found.hash === ours.hash
}

function problemOf(found: Installed, ours: Release): string {
  if (found.version === 0) return 'is not there yet'
  if (found.version < ours.version)
    return `has version ${found.version}, and this Redrive needs version ${ours.version}`
  return `has functions ${found.functions}, and this Redrive needs functions ${ours.functionsVersion}`
}

async function upgrade(database: Database, tx: PostgresTransaction, ours: Release): Promise<void> {
  const { schema } = database
  const run = (sql: string, values?: unknown[]) => tx.query(inSchema(sql, schema), values)
  await run(`SELECT pg_advisory_xact_lock(hashtext('redrive.migrate'), hashtext($1))`, [schema])
  const found = await installed(database, async (text, values) => (await run(text, values)).rows)
  if (isCurrent(database, found, ours)) return

  await run(`SET LOCAL lock_timeout = '${LOCK_TIMEOUT}'`)
  // `IF NOT EXISTS` would ask for the right to create schemas even if this one exists.
  const { rowCount } = await run('SELECT FROM pg_namespace WHERE nspname = $1', [schema])
  if (rowCount === 0) await run(`CREATE SCHEMA ${schema}`)
  const grantees = await findGrantees(tx, schema)
  const versions = [...ours.schema.keys()].sort((a, b) => a - b)
  for (const version of versions) if (version > found.version) await run(ours.schema.get(version) ?? '')
  await replaceFunctions(tx, run, ours, schema)
  await grantAgain(tx, schema, grantees)
  await run('UPDATE redrive.schema_version SET version = $1, functions = $2, hash = $3, oldest = $4', [
    ours.version,
    ours.functionsVersion,
    ours.hash,
    ours.oldest,
  ])
}

/** Replaces all functions, which keeps their grants, and drops those that neither this release has nor the one before. */
async function replaceFunctions(
  tx: PostgresTransaction,
  run: (sql: string, values?: unknown[]) => Promise<unknown>,
  { functions, lastFunctions }: Release,
  schema: string,
): Promise<void> {
  // The files are in no order, and some functions call others.
  await run('SET LOCAL check_function_bodies = off')
  await run(functions)
  const { rows } = await tx.query<{ function: string }>(FIND_OUTDATED, [schema, lastFunctions])
  for (const outdated of rows) await tx.query(`DROP FUNCTION ${outdated.function}`)
}

/** A function that this transaction has just replaced has its transaction id. */
const FIND_OUTDATED = /* sql */ `
  SELECT oid::regprocedure::text AS function FROM pg_proc
  WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
    AND xmin <> pg_current_xact_id()::xid
    AND proname || '/' || pronargs <> ALL ($2)`

/** The versions that a schema has on record. A schema that is not ours is refused. */
async function installed(
  { schema, name }: Database,
  query: (text: string, values: unknown[]) => Promise<readonly unknown[]>,
): Promise<Installed> {
  const kind = answerOf(await query(FIND, [schema]))
  if (kind === 'nothing') return EMPTY
  if (kind === 'foreign') throw new StoreForeignError(name, 'has tables, but none that says which version it is')
  return JSON.parse(String(answerOf(await query(READ, []))))
}

const FIND = /* sql */ `
  SELECT CASE
    WHEN bool_or(relname = 'schema_version') THEN 'ours'
    WHEN count(*) > 0 THEN 'foreign'
    ELSE 'nothing' END AS answer
  FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)`

/** As JSON, whichever columns another release has. */
const READ = /* sql */ `SELECT row_to_json(schema_version)::text AS answer FROM redrive.schema_version`
