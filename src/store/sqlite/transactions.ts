import { runNow, type Transactions, type Tx } from '../port/steps.js'
import type { GroupCommit } from './group-commit.js'

/** Runs bodies on a SQLite store, each as a job of a transaction, which `begin` prepares. */
export function sqliteTransactions(commits: GroupCommit, tx: Tx, begin: () => void): Transactions {
  return {
    write: body =>
      commits.write(() => {
        begin()
        return runNow(body(tx))
      }),
    read: body => commits.read(() => runNow(body(tx))),
  }
}
