import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The ways in which the service for prices can behave. */
export type Mood = 'healthy' | 'flaky' | 'slow' | 'down'

/** A service that our API depends on, with a mood that can be changed. */
export interface PriceService {
  readonly url: string
  /** The number of requests that it has got. */
  readonly requests: number
  mood: Mood
  close(): void
}

/** Starts the service on loopback and a free port. It knows the prices of the products 1 to 100. */
export async function startPriceService(): Promise<PriceService> {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    const product = Number(request.url?.slice('/prices/'.length))
    if (service.mood === 'slow') {
      // Never answers, or stops in the body of its answer.
      if (requests % 2 === 0) response.write('{"product":')
      return
    }
    if (service.mood === 'down' || (service.mood === 'flaky' && requests % 2 === 1)) {
      response.writeHead(503).end()
    } else if (product >= 1 && product <= 100) {
      response.end(JSON.stringify({ product, cents: product * 100 }))
    } else {
      response.writeHead(404).end()
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')

  const service: PriceService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get requests() {
      return requests
    },
    mood: 'healthy',
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
  return service
}
