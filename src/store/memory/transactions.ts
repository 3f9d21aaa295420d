import { runNow, type Transactions, type Tx } from '../port/steps.js'

/** Runs bodies on the memory store, each in one go. */
export function memoryTransactions(tx: Tx): Transactions {
  return { write: async body => runNow(body(tx)), read: async body => runNow(body(tx)) }
}
