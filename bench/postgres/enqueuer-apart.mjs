// Another process that enqueues: it is told a number, enqueues that, and says when it began.
import { once } from 'node:events'
import { enqueueRecord } from '../tasks/latency.mjs'
import { isMain, startProcess } from './process.mjs'
import { open } from './redrive.mjs'

export async function enqueuerApart(url) {
  const child = await startProcess(import.meta.url, [url])
  return {
    async enqueue(n) {
      child.send(n)
      const [beganAt] = await once(child, 'message')
      return beganAt
    },
    async close() {
      child.disconnect()
      await once(child, 'exit')
    },
  }
}

async function main(url) {
  const store = await open(url)
  process.on('message', async n => process.send(await enqueueRecord(store, n)))
  process.on('disconnect', () => store.close())
  process.send('ready')
}

if (isMain(import.meta.url)) await main(process.argv[2])
