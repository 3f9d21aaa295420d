import { connect } from 'node:net'
import type { PoolClient } from 'pg'

/** The server, or a pooler, reads this from a new connection before it asks for a password or TLS. */
const CANCEL_REQUEST = 80877102
const LONGEST_MS = 1000

/** The types of the driver lack these. */
interface Backend {
  readonly host?: unknown
  readonly port?: unknown
  readonly processID?: unknown
  readonly secretKey?: unknown
}

/**
 * Asks the server to end the statement whose answer a connection has given up on: it might wait for a lock for ever. Resolves
 * when the request has been made, or cannot be made soon.
 */
export function cancelStatement(client: PoolClient & Backend): Promise<void> {
  const { host, port, processID, secretKey } = client
  if (typeof host !== 'string' || typeof processID !== 'number' || typeof secretKey !== 'number')
    return Promise.resolve()
  const request = Buffer.alloc(16)
  for (const [n, word] of [request.length, CANCEL_REQUEST, processID, secretKey].entries())
    request.writeInt32BE(word, 4 * n)
  const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port: Number(port) })
  return new Promise(resolve => {
    socket.setTimeout(LONGEST_MS, () => socket.destroy())
    socket.on('error', () => {}).on('close', () => resolve())
    // The server answers nothing, and closes the connection when it has passed the request on.
    socket.resume().write(request)
  })
}
