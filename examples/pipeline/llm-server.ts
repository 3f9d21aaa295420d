import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** A server that plays an LLM, on loopback and a free port. */
export interface LlmServer {
  readonly url: string
  /** How many requests it answered with each status. */
  readonly answers: ReadonlyMap<number, number>
  close(): void
}

/** It allows this many requests per second, and as many at once after a rest. */
const PER_SECOND = 120
const BURST = 60
/** Every so many requests, it fails. */
const FAILS_EVERY = 40

/** Answers `POST /` with a text about the prompt; a prompt that it cannot process with 422, and too many with 429. */
export async function startLlmServer(): Promise<LlmServer> {
  const answers = new Map<number, number>()
  let [tokens, filledAt, requests] = [BURST, performance.now(), 0]

  const isAllowed = () => {
    const now = performance.now()
    tokens = Math.min(BURST, tokens + ((now - filledAt) / 1000) * PER_SECOND)
    filledAt = now
    if (tokens < 1) return false
    tokens--
    return true
  }
  const statusFor = (prompt: string) => {
    if (!isAllowed()) return 429
    if (++requests % FAILS_EVERY === 0) return 500
    return prompt.includes('\u0000') ? 422 : 200
  }
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const prompt = await textOf(request)
    const status = statusFor(prompt)
    answers.set(status, (answers.get(status) ?? 0) + 1)
    if (status !== 429) await delay(20)
    response.writeHead(status, status === 429 ? { 'retry-after': '1' } : {})
    response.end(status === 200 ? `An answer about ${prompt}` : '')
  }

  const server = createServer((request, response) => void answer(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    answers,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString('utf8')
}
