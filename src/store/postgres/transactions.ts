import { inSteps, type Promised, runAwaited, type Transactions } from '../port/steps.js'
import { type Database, LONG, type Sql } from './database.js'

/** Runs bodies on a PostgreSQL store: one that writes in a transaction, and one that reads statement by statement. */
export function postgresTransactions<Port>(database: Database, port: (sql: Sql) => Promised<Port>): Transactions<Port> {
  return {
    write: body => database.together(sql => runAwaited(body(inSteps<Port>(port(sql))))),
    read: body => {
      const call = (fn: string, values: unknown[]) => database.call(fn, values, LONG)
      const query = (text: string, values: unknown[]) => database.query(text, values, LONG)
      return runAwaited(body(inSteps<Port>(port({ call, query, at: database.at }))))
    },
  }
}
