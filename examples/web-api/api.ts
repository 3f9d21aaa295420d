import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { BreakerOpenError, HttpError, RetryExhaustedError } from 'redrive'
import { metricsHandler } from 'redrive/metrics'
import { type PriceClient, UnknownProductError } from './prices.js'

/** Serves `GET /products/:id/price` and `GET /metrics`, on loopback and the given port. */
export async function startApi(prices: PriceClient, port: number): Promise<Server> {
  const metrics = metricsHandler()
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    if (request.url === '/metrics') return metrics(request, response)
    const [, product] = /^\/products\/(\d+)\/price$/.exec(request.url ?? '') ?? []
    if (product === undefined) return void response.writeHead(404).end()

    // Once the client has gone, nobody needs the price: no further attempt is made.
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const price = await prices.priceOf(Number(product), gone.signal)
    response.setHeader('content-type', 'application/json').end(JSON.stringify(price))
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(error => fail(response, error))
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

/** Tells the client what its request came to, and when to come again. */
function fail(response: ServerResponse, error: unknown): void {
  if (response.destroyed) return
  if (error instanceof UnknownProductError) {
    response.writeHead(404)
  } else if (error instanceof BreakerOpenError) {
    response.writeHead(503, { 'retry-after': String(Math.ceil((error.retryAfterMs ?? 0) / 1000)) })
  } else if (error instanceof RetryExhaustedError) {
    response.writeHead(error.reason === 'deadline_passed' ? 504 : 502)
  } else if (error instanceof HttpError) {
    response.writeHead(502)
  } else {
    console.error(error)
    response.writeHead(500)
  }
  response.end()
}
