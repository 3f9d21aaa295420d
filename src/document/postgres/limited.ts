import type { PoolClient, QueryConfig } from 'pg'
import { cancelStatement } from '../../store/postgres/internal.js'

/** The server ends a statement this much earlier than this process does, since its error says more. */
const AHEAD_MS = 1000

type Rows = Promise<Readonly<Record<string, unknown>>[]>

/**
 * Runs a statement in a transaction of its own, with a limit on both sides: on the server, since this process may be gone
 * without a word, and nobody else gets the rows that it has locked; here, since the server may be. The limit of the server
 * ends with the transaction, as a pooler needs it.
 */
export async function runLimited(client: PoolClient, statement: QueryConfig, limitMs: number): Rows {
  const limit = Math.ceil(limitMs)
  const run = (asked: QueryConfig) => runAlone(client, asked, limit + AHEAD_MS)
  const limits = `SET LOCAL statement_timeout = ${limit}; SET LOCAL idle_in_transaction_session_timeout = ${limit}`
  await run({ text: `BEGIN; ${limits}` })
  try {
    const rows = await run(statement)
    await run({ text: 'COMMIT' })
    return rows
  } catch (error) {
    // It would wait behind a statement that has no answer yet.
    if (!isTimeout(error)) await run({ text: 'ROLLBACK' }).catch(() => {})
    throw error
  }
}

/** Runs a statement that no transaction may contain, and asks the server to end it when it has taken too long. */
export async function runAlone(client: PoolClient, statement: QueryConfig, limitMs: number): Rows {
  try {
    const query = { ...statement, query_timeout: limitMs }
    return (await client.query(query)).rows
  } catch (error) {
    if (isTimeout(error)) await cancelStatement(client)
    throw error
  }
}

/** As the driver says it. */
function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout'
}
