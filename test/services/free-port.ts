import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A port of the loopback that nobody listens on. Below the ports that the system gives to outgoing connections, so that
 * a server which is down for a while finds it free again.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000)
    if (await isFree(port)) return port
  }
}

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
