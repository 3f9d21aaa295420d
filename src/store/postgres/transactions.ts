import { inSteps, runAwaited, type Transactions } from '../port/steps.js'
import { type Database, LONG } from './database.js'
import type { Enqueues } from './enqueue.js'
import { postgresPort } from './port.js'

/** Runs bodies on a PostgreSQL store: one that writes in a transaction, and one that reads statement by statement. */
export function postgresTransactions(database: Database, enqueues: Enqueues): Transactions {
  return {
    write: body => database.together(sql => runAwaited(body(inSteps(postgresPort(sql, enqueues))))),
    read: body => {
      const call = (fn: string, values: unknown[]) => database.call(fn, values, LONG)
      const query = (text: string, values: unknown[]) => database.query(text, values, LONG)
      return runAwaited(body(inSteps(postgresPort({ call, query, at: database.at }, enqueues))))
    },
  }
}
