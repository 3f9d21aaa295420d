import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A port of the loopback that nobody listens on. Below the ports that the system gives to outgoing connections, so that
 * a server which is down for a while finds it free again.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    if (given.has(port)) continue
    given.add(port)
    if (await isFree(port)) return port
  }
}

/** A port is given out once: who got it may not listen on it yet, or be down for a while. */
const given = new Set<number>()

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
