import type { PoolClient } from 'pg'
import { FinalError } from '../../policy/index.js'

/** An open transaction of a PostgreSQL store: `query` of `pg`, until the transaction ends. */
export type PostgresTransaction = Pick<PoolClient, 'query'>

/** Limits how long a transaction may send nothing, or wait for an answer. */
interface Watch {
  readonly silenceMs: number
  readonly onSilence: () => void
}

/**
 * Lends a client to a function for as long as that runs. Its transaction then ends, and the client serves others: a query
 * that comes later, because of a forgotten `await`, would run in their transaction.
 */
export async function lend<T>(
  client: PoolClient,
  work: (tx: PostgresTransaction) => Promise<T>,
  { silenceMs, onSilence }: Watch,
): Promise<T> {
  let isOver = false
  let timer: NodeJS.Timeout | undefined
  const watch = () => {
    clearTimeout(timer)
    if (!isOver) timer = setTimeout(onSilence, silenceMs)
  }
  const query = (...args: unknown[]): unknown => {
    if (isOver) {
      throw new FinalError('A query came after the end of its transaction, and was not run. Is an await missing?', {
        code: 'transaction_over',
      })
    }
    watch()
    const answer: unknown = Reflect.apply(client.query, client, args)
    if (answer instanceof Promise) answer.then(watch, watch)
    return answer
  }
  watch()
  try {
    return await work({ query: query as PoolClient['query'] })
  } finally {
    isOver = true
    clearTimeout(timer)
  }
}
