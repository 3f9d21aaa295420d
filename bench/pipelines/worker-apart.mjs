// Another process that works on a run. It is told the run's id, and says when it has nothing left to do.
import { once } from 'node:events'
import { isMain, startProcess } from '../postgres/process.mjs'
import { noOps, openServer } from './redrive.mjs'

export async function workerApart(url, concurrency) {
  const child = await startProcess(import.meta.url, [url, concurrency])
  return {
    work: run => child.send(run),
    async close() {
      child.disconnect()
      await once(child, 'exit')
    },
  }
}

async function main(url, concurrency) {
  const store = await openServer(url)
  let handle
  process.on('message', async run => {
    handle = await noOps(concurrency).resume(run, { store })
  })
  process.on('disconnect', async () => {
    await handle?.stop()
    await store.close()
  })
  process.send('ready')
}

if (isMain(import.meta.url)) await main(process.argv[2], Number(process.argv[3]))
