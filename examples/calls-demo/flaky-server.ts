import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { identityRandom } from 'redrive/policy'

/** A service on a bad day, on loopback and a free port. */
export interface FlakyServer {
  readonly url: string
  /** How many requests have come in. */
  readonly requests: number
  close(): void
}

type Trouble = 'rate_limit' | 'error' | 'unavailable' | 'reset' | 'hang'
type Answer = 'ok' | 'missing' | Trouble

const TROUBLES: readonly Trouble[] = ['rate_limit', 'rate_limit', 'error', 'unavailable', 'reset', 'hang', 'hang']

/** Answers `GET /orders/<id>`. What it does depends on the id and on how often it was asked, so that runs are alike. */
export async function startFlakyServer(): Promise<FlakyServer> {
  const asked = new Map<string, number>()
  let requests = 0

  const server = createServer((request, response) => {
    requests++
    const id = request.url ?? '/'
    const nth = (asked.get(id) ?? 0) + 1
    asked.set(id, nth)
    void answer(id, nth, request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    url: `http://127.0.0.1:${port}`,
    get requests() {
      return requests
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function answer(id: string, nth: number, { socket }: IncomingMessage, response: ServerResponse): Promise<void> {
  const answers = answersFor(id)
  await delay(20 + identityRandom(`${id} latency`, nth) * 130)
  switch (answers[nth - 1] ?? answers.at(-1)) {
    case 'ok':
      return send(response, 200)
    case 'missing':
      return send(response, 404)
    case 'rate_limit':
      return send(response, 429, { 'retry-after': '1' })
    case 'error':
      return send(response, 500)
    case 'unavailable':
      return send(response, 503)
    case 'reset':
      return void socket.resetAndDestroy()
    case 'hang':
      return // The client waits for as long as it has patience.
  }
}

function send(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify({ status }))
}

/** Returns the answers to the requests for an id, in order. The last one repeats. */
function answersFor(id: string): readonly Answer[] {
  const draw = identityRandom(id, 0)
  if (draw < 0.04) return ['missing']
  if (draw < 0.08) return troubles(id, 4)
  if (draw < 0.16) return [...troubles(id, 3), 'ok']
  if (draw < 0.26) return [...troubles(id, 2), 'ok']
  if (draw < 0.44) return [...troubles(id, 1), 'ok']
  return ['ok']
}

function troubles(id: string, count: number): Answer[] {
  return Array.from({ length: count }, (_, i) => {
    const drawn = Math.floor(identityRandom(`${id} trouble`, i) * TROUBLES.length)
    return TROUBLES[drawn] ?? 'error'
  })
}
