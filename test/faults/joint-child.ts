import { Worker } from '../../src/task/index.js'
import { jointTask } from './joint-tasks.js'
import { openStore } from './open-store.js'

/** Runs tasks that are called together until it is killed or stopped. */
const { url, lease, losses } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')
const store = await openStore(url)
const worker = new Worker(store, { tasks: [jointTask(losses)], lease })
await worker.start()
console.log('ready')
process.once('SIGTERM', async () => {
  await worker.stop()
  await store.close()
  console.log('{}')
})
