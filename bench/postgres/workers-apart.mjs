// Workers in processes of their own.
import { once } from 'node:events'
import { defineTask, Worker } from '../../dist/task/index.js'
import { isMain, startProcess } from './process.mjs'
import { open } from './redrive.mjs'

/** Starts processes that work on a database. `drained(count)` resolves when they have run so many more tasks. */
export async function workersApart(url, processes) {
  const children = await Promise.all(Array.from({ length: processes }, () => startProcess(import.meta.url, [url])))
  let run = 0
  let look = () => {}
  for (const child of children) {
    child.on('message', more => {
      run += more
      look()
    })
  }
  return {
    drained: count =>
      new Promise(resolve => {
        look = () => {
          if (run < count) return
          run -= count
          look = () => {}
          resolve()
        }
      }),
    async stop() {
      for (const child of children) child.send('stop')
      await Promise.all(children.map(child => once(child, 'exit')))
    },
  }
}

/** Runs in each worker process. It reports how many handlers it has run since its last report. */
async function main(url) {
  const store = await open(url)
  let run = 0
  const say = () => {
    process.send(run)
    run = 0
  }
  const handler = () => {
    if (run++ === 0) setImmediate(say)
  }
  const worker = new Worker(store, { tasks: [defineTask('work', { handler })], concurrency: 500 })
  process.once('message', async () => {
    await worker.stop()
    await store.close()
    process.disconnect()
  })
  await worker.start()
  process.send('ready')
}

if (isMain(import.meta.url)) await main(process.argv[2])
