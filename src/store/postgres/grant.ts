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

/** Lets roles use or read what a migration has added, as far as they may use or read the store. */
export async function grantAgain(client: PostgresTransaction, schema: string): Promise<void> {
  const { rows } = await client.query<{ role: string }>(inSchema(FIND_GRANTED, schema))
  for (const { role } of rows) await grantIn(client, schema, role)
  const readers = await client.query<{ role: string }>(inSchema(FIND_READERS, schema))
  for (const { role } of readers.rows) await grantReadIn(client, schema, role)
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
  await client.query(`REVOKE INSERT, UPDATE, DELETE ON ${schema}.schema_version FROM ${name}`)
}

/** A name as SQL takes it. It cannot be a parameter of GRANT. */
function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

const FIND_GRANTED = /* sql */ `
  SELECT pg_get_userbyid(given.grantee) AS role
  FROM pg_class CROSS JOIN aclexplode(pg_class.relacl) AS given
  WHERE pg_class.oid = 'redrive.task'::regclass AND given.grantee NOT IN (0, pg_class.relowner)
    AND given.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  GROUP BY given.grantee HAVING count(DISTINCT given.privilege_type) = 4`

/** Roles that were let read the views: a view that a migration has added is for them too. */
const FIND_READERS = /* sql */ `
  SELECT DISTINCT pg_get_userbyid(given.grantee) AS role
  FROM pg_class CROSS JOIN aclexplode(pg_class.relacl) AS given
  WHERE pg_class.oid = to_regclass('redrive.attempts') AND given.grantee NOT IN (0, pg_class.relowner)
    AND given.privilege_type = 'SELECT'`
