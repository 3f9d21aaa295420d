import { readdirSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { MemoryStore } from '../store/index.js'
import { type MetricsServer, serveMetrics, storeMetrics } from './index.js'

const SRC = join(import.meta.dirname, '..')

it('this is the only server of the package, so a new one needs these tests too', () => {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  const code = files.filter(file => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  expect(code.filter(file => /createServer|\.listen\(/.test(readFileSync(join(SRC, file), 'utf8')))).toEqual([
    'metrics/serve-metrics.ts',
  ])
})

describe('whatever a client sends, the process goes on', () => {
  let server: MetricsServer
  const uncaught: unknown[] = []
  const note = (error: unknown) => void uncaught.push(error)

  beforeAll(async () => {
    const registry = new Registry()
    await storeMetrics(new MemoryStore(), { registry })
    server = await serveMetrics({ port: 0, registry })
    process.on('uncaughtException', note).on('unhandledRejection', note)
  })
  afterAll(async () => {
    process.off('uncaughtException', note).off('unhandledRejection', note)
    await server.close()
  })

  const open = () => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    return socket.on('error', () => {})
  }
  const isWell = async () => {
    const response = await fetch(server.url)
    expect(await response.text()).toContain('redrive_store_up 1')
    expect(uncaught).toEqual([])
  }
  /** Sends bytes on a connection of their own, and returns the status lines of the answers. */
  const send = (bytes: string | Uint8Array) =>
    new Promise<string[]>(resolve => {
      const answer: Buffer[] = []
      const socket = open()
      socket.on('data', part => void answer.push(part))
      socket.on('close', () =>
        resolve(
          Buffer.concat(answer)
            .toString('latin1')
            .match(/^HTTP\/1\.1 \d+/gm) ?? [],
        ),
      )
      socket.end(bytes)
    })
  const statusOf = async (bytes: string) => (await send(bytes))[0]?.slice('HTTP/1.1 '.length)
  const request = (line: string, headers = 'Host: x\r\n') => `${line} HTTP/1.1\r\n${headers}Connection: close\r\n\r\n`

  it.each([
    ['a path that is no URL', request('GET //'), '400'],
    ['a path of backslashes', request('GET /\\\\'), '400'],
    ['a host that is no host', request('GET //[:::1]/metrics'), '400'],
    ['a port that is no port', request('GET http://x:99999/metrics'), '400'],
    ['a URL without a host', request('GET http://'), '400'],
    ['an unknown method', request('BREW /metrics'), '400'],
    ['a method in lower case', request('get /metrics'), '400'],
    ['no path', request('GET'), '400'],
    ['a path with spaces', request('GET /a b'), '400'],
    ['a NUL in the path', request('GET /\0'), '400'],
    ['a header without a name', request('GET /metrics', 'Host: x\r\n: y\r\n'), '400'],
    ['a NUL in a header', request('GET /metrics', 'Host: x\r\na: \0\r\n'), '400'],
    ['no Host', request('GET /metrics', ''), '400'],
    ['two lengths', request('GET /metrics', 'Host: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n'), '400'],
    ['a length that is no number', request('GET /metrics', 'Host: x\r\nContent-Length: -1\r\n'), '400'],
    ['a protocol of the future', 'GET /metrics HTTP/9.9\r\n\r\n', '400'],
    ['no HTTP at all', '\x16\x03\x01\x02\0\x01\0\x01\xfc', '400'],
    ['headers without end', request('GET /metrics', `Host: x\r\na: ${'x'.repeat(100_000)}\r\n`), '431'],
    ['a path without end', request(`GET /${'x'.repeat(100_000)}`), '431'],
    ['a method that changes something', request('POST /metrics', 'Host: x\r\nContent-Length: 0\r\n'), '405'],
    ['OPTIONS *', request('OPTIONS *'), '405'],
    ['another path', request('GET /../../etc/passwd'), '404'],
    ['a broken escape', request('GET /%'), '404'],
    ['an absolute URL', request('GET http://x/metrics?a=b'), '200'],
    ['HEAD', request('HEAD /metrics'), '200'],
    ['an expectation', request('GET /metrics', 'Host: x\r\nExpect: 100-continue\r\n'), '100'],
    ['an impossible expectation', request('GET /metrics', 'Host: x\r\nExpect: tea\r\n'), '417'],
    ['an upgrade', 'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', '200'],
    ['CONNECT', request('CONNECT x:443'), undefined],
    ['half a request', 'GET /metrics HTTP/1.1\r\nHo', '400'],
  ])('%s', async (_, bytes, status) => {
    expect(await statusOf(bytes)).toBe(status)
    await isWell()
  })

  it('answers requests that are sent at once in their order', async () => {
    const good = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
    const lines = await send(`${good}GET // HTTP/1.1\r\nHost: x\r\n\r\n${good}`)
    expect(lines.map(line => line.slice('HTTP/1.1 '.length))).toEqual(['200', '400', '200'])
    await send(`${good}${good}\0\0\r\n\r\n`)
    await isWell()
  })

  it('connections that are reset, before and during an answer', async () => {
    const sockets: Socket[] = []
    for (const bytes of [
      '',
      'GET /met',
      request('GET /metrics'),
      request('GET /metrics').repeat(50),
      request('GET //'),
    ]) {
      const socket = open()
      sockets.push(socket)
      await new Promise<void>(resolve => socket.write(bytes || '\r\n', () => resolve()))
      socket.resetAndDestroy()
    }
    await vi.waitFor(() => expect(sockets.every(({ closed }) => closed)).toBe(true))
    await isWell()
  })

  it('more connections than it has room for are closed, and it has room again once they are gone', async () => {
    const sockets = Array.from({ length: 110 }, open)
    await vi.waitFor(() => expect(sockets.filter(({ closed }) => closed).length).toBeGreaterThanOrEqual(10))
    for (const socket of sockets) socket.destroy()
    await vi.waitFor(isWell)
  })

  it('any bytes, with the words of HTTP among them', async () => {
    const word = fc.constantFrom(
      'GET ',
      'CONNECT ',
      '/',
      '//',
      '/metrics',
      ' HTTP/1.1',
      '\r\n',
      '\r\n\r\n',
      'Host: x',
      '[',
      ':',
    )
    const bytes = fc.array(fc.oneof(word, fc.string({ unit: 'binary', maxLength: 8 })), { maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(bytes, async parts => void (await send(Buffer.from(parts.join(''), 'latin1')))),
      { numRuns: 100 },
    )
    await isWell()
  })
})
