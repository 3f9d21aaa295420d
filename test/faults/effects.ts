import type { Database } from 'better-sqlite3'
import type { PostgresTransaction } from 'redrive/postgres'

/*
 * The table that tasks write to, in the store's own database: whatever becomes of them, each write is to exist once. On
 * SQLite all of it is synchronous, as a transaction there must be.
 */

/** A transaction of whichever store. */
export type Transaction = Database | PostgresTransaction

const CREATE = 'CREATE TABLE effect (task TEXT, attempt INTEGER)'
const COUNT = 'SELECT task, count(*) AS times FROM effect GROUP BY task'

/** How often a task has written. PostgreSQL gives the number as text. */
interface EffectCount {
  readonly task: string
  readonly times: number | string
}

export function createEffects(tx: Transaction): unknown {
  return isPostgres(tx) ? tx.query(CREATE).then(() => {}) : void tx.exec(CREATE)
}

/** Writes for a task, then calls back: still within the transaction. */
export function writeEffect(
  tx: Transaction,
  { id, attempt }: { readonly id: string; readonly attempt: number },
  written: () => void = () => {},
): void | Promise<void> {
  if (isPostgres(tx)) return tx.query('INSERT INTO effect VALUES ($1, $2)', [id, attempt]).then(written)
  tx.prepare('INSERT INTO effect VALUES (?, ?)').run(id, attempt)
  written()
}

export function countEffects(tx: Transaction): EffectCount[] | Promise<EffectCount[]> {
  if (isPostgres(tx)) return tx.query<EffectCount>(COUNT).then(({ rows }) => rows)
  return tx.prepare<[], EffectCount>(COUNT).all()
}

function isPostgres(tx: Transaction): tx is PostgresTransaction {
  return 'query' in tx
}
