import type { PoolClient } from 'pg'
import { FinalError } from '../../policy/index.js'

/** An open transaction of a PostgreSQL store: `query` of `pg`, until the transaction ends. */
export type PostgresTransaction = Pick<PoolClient, 'query'>

/**
 * Lends a client to a function for as long as that runs. Its transaction then ends, and the client serves others: a query
 * that comes later, because of a forgotten `await`, would run in their transaction.
 */
export async function lend<T>(client: PoolClient, work: (tx: PostgresTransaction) => Promise<T>): Promise<T> {
  let isOver = false
  const query = (...args: unknown[]): unknown => {
    if (!isOver) return Reflect.apply(client.query, client, args)
    throw new FinalError('A query came after the end of its transaction, and was not run. Is an await missing?', {
      code: 'transaction_over',
    })
  }
  try {
    return await work({ query: query as PoolClient['query'] })
  } finally {
    isOver = true
  }
}
