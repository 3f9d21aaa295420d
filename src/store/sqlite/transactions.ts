import { inSteps, runNow, type Transactions } from '../port/steps.js'
import type { GroupCommit } from './group-commit.js'

/** Runs bodies on a SQLite store, each as a job of a transaction, which `begin` prepares. */
export function sqliteTransactions<Port>(commits: GroupCommit, port: Port, begin: () => void): Transactions<Port> {
  const tx = inSteps<Port>(port)
  return {
    write: body =>
      commits.write(() => {
        begin()
        return runNow(body(tx))
      }),
    read: body => commits.read(() => runNow(body(tx))),
  }
}
