import { TaskQueue, Worker } from '../../src/task/index.js'
import { batchTasks, members } from './batch-tasks.js'
import { openStore } from './open-store.js'

/** Fills a batch, and works on it until it is killed or stopped. */
const { url, name, count, lease, isProducer } = JSON.parse(process.env.REDRIVE_FAULT_CHILD ?? '{}')
const store = await openStore(url)
const { work, grow, report } = batchTasks()
const worker = new Worker(store, { tasks: [work, grow, report], lease, concurrency: 50 })
await worker.start()
console.log('ready')
if (isProducer) await new TaskQueue(store).enqueueBatch(name, work, members(count), { onEnd: { task: report } })
process.once('SIGTERM', async () => {
  await worker.stop()
  await store.close()
  console.log('{}')
})
