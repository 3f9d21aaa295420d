import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Starts a proxy on loopback in front of a server, with a network that can be made to fail. */
export async function startProxy(url: string): Promise<NetworkProxy> {
  const { hostname, port } = new URL(url)
  const proxy = new NetworkProxy({ host: hostname, port: Number(port) })
  await proxy.listen()
  return proxy
}

/** Forwards connections to a server: at once, late, not at all for a while, or cut at a chosen moment. */
export class NetworkProxy {
  /** How long every piece of data is on its way, in each direction. */
  delayMs = 0
  readonly #target: { readonly host: string; readonly port: number }
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #answerToCut: { isIt(bytes: Buffer): boolean; wasCut(): void } | undefined
  #hole: { readonly isOver: Promise<void>; end(): void } | undefined

  constructor(target: { readonly host: string; readonly port: number }) {
    this.#target = target
    this.#server = createServer(client => this.#connect(client))
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** The same url, through the proxy. */
  through(url: string): string {
    const { port } = this.#server.address() as AddressInfo
    return Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href
  }

  /** Cuts all connections. New ones are welcome. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /**
   * Swallows the server's next answer that contains a text, and cuts that connection: the server has done what it was
   * asked, and the client cannot know. Resolves once it has happened. PostgreSQL answers COMMIT with `COMMIT`.
   */
  cutBeforeAnswer(text: string, { skip = 0 } = {}): Promise<void> {
    let left = skip
    return new Promise(resolve => {
      this.#answerToCut = { isIt: bytes => bytes.includes(text) && left-- === 0, wasCut: resolve }
    })
  }

  /** From now on nothing gets through, neither data nor the end of a connection, and nobody is told. */
  blackHole(): void {
    this.#hole ??= makeHole()
  }

  /** Ends the black hole. What was under way arrives, as it does when a network is repaired. */
  repair(): void {
    this.#hole?.end()
    this.#hole = undefined
  }

  async close(): Promise<void> {
    this.repair()
    this.#server.close()
    this.cut()
    await once(this.#server, 'close')
  }

  #connect(client: Socket): void {
    const server = connect(this.#target)
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket))
    }
    void this.#forward(client, server, () => false)
    void this.#forward(server, client, bytes => this.#cutsAt(bytes))
  }

  async #forward(from: Socket, to: Socket, isCut: (bytes: Buffer) => boolean): Promise<void> {
    try {
      for await (const bytes of from) {
        if (this.delayMs > 0) await sleep(this.delayMs)
        await this.#hole?.isOver
        if (isCut(bytes)) break
        to.write(bytes)
      }
    } catch {
      // It was cut, by either side: so is the other.
    }
    await this.#hole?.isOver
    to.end()
  }

  #cutsAt(bytes: Buffer): boolean {
    if (!this.#answerToCut?.isIt(bytes)) return false
    this.#answerToCut.wasCut()
    this.#answerToCut = undefined
    return true
  }
}

function makeHole() {
  let end = () => {}
  const isOver = new Promise<void>(resolve => {
    end = resolve
  })
  return { isOver, end }
}
