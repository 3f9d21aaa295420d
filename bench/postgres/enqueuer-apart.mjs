// Another process that enqueues: it is told a number, enqueues that, and says when it began.
import { once } from 'node:events'
import { defineTask, TaskQueue } from '../../dist/task/index.js'
import { isMain, startProcess } from './process.mjs'
import { open } from './redrive.mjs'

/** The clock that all processes of a machine share, in milliseconds. */
export const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6

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
  const queue = new TaskQueue(store)
  const record = defineTask('record', { handler: () => {} })
  process.on('message', async n => {
    const beganAt = monotonicMs()
    await queue.enqueue(record, n)
    process.send(beganAt)
  })
  process.on('disconnect', () => store.close())
  process.send('ready')
}

if (isMain(import.meta.url)) await main(process.argv[2])
