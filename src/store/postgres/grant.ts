import { OptionError } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'
import { type Database, inSchema } from './database.js'
import type { PostgresTransaction } from './transaction.js'

/** Lets a role use the store, and no more: it may read and write rows, but not create or change tables. */
export function grant(database: Database, role: string): Promise<void> {
  return grantTo(database, role, grantIn)
}

/** The views for people's own queries: docs/sql.md. */
const VIEWS = ['attempts', 'dead_letters', 'failure_groups']

/** Lets a role read the views of the store, and nothing else. */
export function grantRead(database: Database, role: string): Promise<void> {
  return grantTo(database, role, grantReadIn)
}

/** Lets a role call `redrive.enqueue`, and nothing else. */
export function grantEnqueue(database: Database, role: string): Promise<void> {
  return grantTo(database, role, grantEnqueueIn)
}

function grantTo(database: Database, role: string, give: typeof grantIn): Promise<void> {
  return database.transaction(
    async client => {
      const { rowCount } = await client.query(/* sql */ `SELECT FROM pg_roles WHERE rolname = $1`, [role])
      if (rowCount === 0) {
        throw new OptionError(
          'role',
          `The database has no role ${quoted(role)}. Check its name, or create it: CREATE ROLE`,
        )
      }
      await give(client, database.schema, role)
    },
    { isOurs: true },
  )
}

/** The roles that may use the store, or a part of it. */
export interface Grantees {
  readonly users: readonly string[]
  readonly readers: readonly string[]
  readonly enqueuers: readonly string[]
}

/** The roles that may use a store as it is now; none if it is not there yet. */
export async function findGrantees(client: PostgresTransaction, schema: string): Promise<Grantees> {
  const find = async (text: string, values?: unknown[]) => {
    const { rows } = await client.query<{ role: string }>(inSchema(text, schema), values)
    return rows.map(({ role }) => role)
  }
  return {
    users: await find(FIND_USERS),
    readers: await find(FIND_READERS),
    enqueuers: await find(FIND_ENQUEUERS, [schema]),
  }
}

/** Lets roles use what a migration has added or made anew, as far as they could use the store before. */
export async function grantAgain(client: PostgresTransaction, schema: string, before: Grantees): Promise<void> {
  for (const role of before.users) await grantIn(client, schema, role)
  for (const role of before.readers) await grantReadIn(client, schema, role)
  for (const role of before.enqueuers) await grantEnqueueIn(client, schema, role)
}

async function grantEnqueueIn(client: PostgresTransaction, schema: string, role: string): Promise<void> {
  const name = identifier(role)
  await client.query(`GRANT USAGE ON SCHEMA ${schema} TO ${name}`)
  const { rows } = await client.query<{ fn: string }>(FIND_ENQUEUE, [schema])
  for (const { fn } of rows) await client.query(`GRANT EXECUTE ON FUNCTION ${fn} TO ${name}`)
}

async function grantReadIn(client: PostgresTransaction, schema: string, role: string): Promise<void> {
  const name = identifier(role)
  await client.query(`GRANT USAGE ON SCHEMA ${schema} TO ${name}`)
  await client.query(`GRANT SELECT ON ${VIEWS.map(view => `${schema}.${view}`).join(', ')} TO ${name}`)
}

async function grantIn(client: PostgresTransaction, schema: string, role: string): Promise<void> {
  const name = identifier(role)
  const rights = [
    `USAGE ON SCHEMA ${schema}`,
    `SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema}`,
    `USAGE, SELECT ON ALL SEQUENCES IN SCHEMA ${schema}`,
  ]
  for (const right of rights) await client.query(`GRANT ${right} TO ${name}`)
  await grantEnqueueIn(client, schema, role)
  await client.query(`REVOKE INSERT, UPDATE, DELETE ON ${schema}.schema_version FROM ${name}`)
}

/** A name as SQL takes it. It cannot be a parameter of GRANT. */
function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

const FIND_USERS = /* sql */ `
  SELECT pg_get_userbyid(given.grantee) AS role
  FROM pg_class CROSS JOIN aclexplode(pg_class.relacl) AS given
  WHERE pg_class.oid = to_regclass('redrive.task') AND given.grantee NOT IN (0, pg_class.relowner)
    AND given.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  GROUP BY given.grantee HAVING count(DISTINCT given.privilege_type) = 4`

/** A view that a migration has added is for them too. */
const FIND_READERS = /* sql */ `
  SELECT DISTINCT pg_get_userbyid(given.grantee) AS role
  FROM pg_class CROSS JOIN aclexplode(pg_class.relacl) AS given
  WHERE pg_class.oid = to_regclass('redrive.attempts') AND given.grantee NOT IN (0, pg_class.relowner)
    AND given.privilege_type = 'SELECT'`

/** With one more parameter, the function is another one, without the grants of the old one. */
const FIND_ENQUEUERS = /* sql */ `
  SELECT DISTINCT pg_get_userbyid(given.grantee) AS role
  FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace AND nspname = $1
  CROSS JOIN aclexplode(proacl) AS given
  WHERE proname = 'enqueue' AND given.grantee NOT IN (0, proowner) AND given.privilege_type = 'EXECUTE'`

/** Its forms, for payloads of different types. */
const FIND_ENQUEUE = /* sql */ `
  SELECT pg_proc.oid::regprocedure::text AS fn FROM pg_proc
  JOIN pg_namespace ON pg_namespace.oid = pronamespace AND nspname = $1
  WHERE proname = 'enqueue'`
