import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { failureText } from '../telemetry/index.js'
import { loadPromClient, type MetricsRegistry } from './prom-client.js'

/** Options of `serveMetrics`. @inline */
export interface ServeMetricsOptions {
  /** The port to listen on. 0: any that is free. */
  readonly port: number
  /** The address to listen on. Default `127.0.0.1`: this machine alone can scrape. */
  readonly host?: string | undefined
  /** The registry to serve. Default: prom-client's own registry. */
  readonly registry?: MetricsRegistry | undefined
}

const SERVE_METRICS_OPTIONS: KnownOptions<ServeMetricsOptions> = { port: '', host: '', registry: 'object' }

/** Resolves a request's path, as a URL must have a host. */
const ORIGIN = 'http://localhost'
/** Whoever can reach the port must not use up the file descriptors that the process needs for its work. */
const MAX_CONNECTIONS = 100

/** A server that Prometheus can scrape. */
export interface MetricsServer {
  /** The address of the metrics, such as `http://127.0.0.1:9464/metrics`. */
  readonly url: string
  /** Stops listening. */
  close(): Promise<void>
}

/**
 * Creates a handler for `GET /metrics` in an existing web server: Node's own, Express or Connect.
 *
 * ```ts
 * app.get('/metrics', metricsHandler())
 * ```
 *
 * In Fastify, call `reply.hijack()` first, and pass `request.raw` and `reply.raw`.
 */
export function metricsHandler(
  options: Pick<ServeMetricsOptions, 'registry'> = {},
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  return async (_, response) => {
    try {
      const registry = options.registry ?? (await loadPromClient()).register
      const text = await registry.metrics()
      response.setHeader('content-type', registry.contentType)
      response.end(text)
    } catch (error) {
      response.statusCode = 500
      response.end(`${failureText(error)}\n`)
    }
  }
}

/**
 * Serves metrics on their own port, at `/metrics`.
 *
 * ```ts
 * const server = await serveMetrics({ port: 9464 })
 * ```
 */
export async function serveMetrics(options: ServeMetricsOptions): Promise<MetricsServer> {
  checkOptions('serveMetrics()', options, SERVE_METRICS_OPTIONS)
  const { port, host = '127.0.0.1', registry } = options
  const handler = metricsHandler({ registry })
  const server = createServer((request, response) => {
    const { method, url = '/' } = request
    if (method !== 'GET' && method !== 'HEAD') return refuse(response, 405, 'Only GET and HEAD are allowed.')
    if (!URL.canParse(url, ORIGIN)) return refuse(response, 400, 'The URL is invalid.')
    if (new URL(url, ORIGIN).pathname !== '/metrics') return refuse(response, 404, 'The metrics are at /metrics.')
    void handler(request, response)
  })
  server.maxConnections = MAX_CONNECTIONS
  // The listener stays after the start: a connection that cannot be accepted must not end the process.
  await new Promise<void>((resolve, reject) => server.on('error', reject).listen(port, host, resolve))
  const address = server.address()
  const listening = typeof address === 'object' && address !== null ? address.port : port
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listening}/metrics`,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        // A scraper keeps its connection open.
        server.closeAllConnections()
      }),
  }
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.statusCode = status
  response.end(`${text}\n`)
}
