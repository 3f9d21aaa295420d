import { inSteps, runNow, type Transactions } from '../port/steps.js'

/** Runs bodies on the memory store, each in one go. */
export function memoryTransactions<Port>(port: Port): Transactions<Port> {
  const tx = inSteps<Port>(port)
  return { write: async body => runNow(body(tx)), read: async body => runNow(body(tx)) }
}
