import type { Database } from './database.js'

/** Lets a role use the store, and no more: it may read and write rows, but not create or change tables. */
export async function grant(database: Database, role: string): Promise<void> {
  const { schema } = database
  const rights = [
    `USAGE ON SCHEMA ${schema}`,
    `SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema}`,
    `USAGE, SELECT ON ALL SEQUENCES IN SCHEMA ${schema}`,
  ]
  await database.transaction(async client => {
    // A name cannot be a parameter of GRANT.
    const name = client.escapeIdentifier(role)
    for (const right of rights) await client.query(`GRANT ${right} TO ${name}`)
    await client.query(`REVOKE INSERT, UPDATE, DELETE ON ${schema}.schema_version FROM ${name}`)
  })
}
