import { driveOperation } from '../../src/engine/internal.js'
import { systemClock } from '../../src/time/index.js'
import { openStore } from './open-store.js'

/** Drives an operation until it is killed, or all members were moved. */
const { url, id, leaseMs } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')
const store = await openStore(url)
const options = { driver: `child-${process.pid}`, signal: new AbortController().signal, clock: systemClock, leaseMs }
let steps = 0
await driveOperation(store, id, {
  ...options,
  onStep: () => {
    if (++steps === 2) console.log('ready')
  },
})
await store.close()
console.log('ready')
console.log(JSON.stringify({ steps }))
