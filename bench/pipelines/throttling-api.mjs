// An API that allows so many requests a second, from a bucket that holds as many, and refuses the rest with a 429. It runs
// in a process of its own, as a remote one would.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { isMain, startProcess } from '../postgres/process.mjs'

/** How long a request takes that is allowed. */
const WORK_MS = 100

/** Starts the API. `counts()` says how many requests it allowed and refused since the last time it was asked. */
export async function startApi({ perSecond, burst }) {
  const child = await startProcess(import.meta.url, [perSecond, burst])
  const ask = async () => {
    child.send('counts')
    const [answer] = await once(child, 'message')
    return answer
  }
  const { port } = await ask()
  return {
    url: `http://127.0.0.1:${port}/`,
    counts: ask,
    async close() {
      child.disconnect()
      await once(child, 'exit')
    },
  }
}

async function main(perSecond, burst) {
  let tokens = burst
  let refilledAt = performance.now()
  let allowed = 0
  let refused = 0
  const server = createServer((_request, response) => {
    const now = performance.now()
    tokens = Math.min(burst, tokens + ((now - refilledAt) * perSecond) / 1000)
    refilledAt = now
    if (tokens >= 1) {
      tokens--
      allowed++
      setTimeout(() => response.end('{}'), WORK_MS)
    } else {
      refused++
      response.writeHead(429, { 'retry-after': '1' }).end()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.on('message', () => {
    process.send({ port: server.address().port, allowed, refused })
    allowed = 0
    refused = 0
  })
  process.on('disconnect', () => {
    server.closeAllConnections()
    server.close()
  })
  process.send('ready')
}

if (isMain(import.meta.url)) await main(Number(process.argv[2]), Number(process.argv[3]))
