import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A relay before a server of MongoDB's protocol. */
export interface Relay {
  /** The same url, through the relay. */
  through(url: string): string
  close(): Promise<void>
}

/**
 * Starts a relay that lets one message through at a time, over all connections: the next one waits for the answer to the one
 * before. So a server whose updates are not atomic behaves as if they were.
 */
export async function startOneAtATime(url: string): Promise<Relay> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  let turn = Promise.resolve()
  const server = createServer(client => {
    const upstream = connect({ host: hostname, port: Number(port) })
    let answered = () => {}
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
        answered()
      })
    }
    onMessages(client, message => {
      turn = turn.then(
        () =>
          new Promise(resolve => {
            answered = resolve
            if (upstream.destroyed) resolve()
            else upstream.write(message)
          }),
      )
    })
    onMessages(upstream, message => {
      client.write(message)
      answered()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    through: text => Object.assign(new URL(text), { port: String((server.address() as AddressInfo).port) }).href,
    close: async () => {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

/** Calls back with each whole message: its first four bytes say how long it is. */
function onMessages(socket: Socket, callback: (message: Buffer) => void): void {
  let pending = Buffer.alloc(0)
  socket.on('data', bytes => {
    pending = Buffer.concat([pending, bytes])
    while (pending.length >= 4 && pending.length >= pending.readInt32LE(0)) {
      const length = pending.readInt32LE(0)
      callback(pending.subarray(0, length))
      pending = pending.subarray(length)
    }
  })
}
