import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { OptionError, type PolicyInput } from '../policy/index.js'
import type { WorkEvent } from '../telemetry/index.js'

import { type FakeClock, fakeClock } from '../testing/index.js'
import { CircuitBreaker, HttpError, RetryExhaustedError, retryFetch } from './index.js'

type Handler = (request: IncomingMessage, response: ServerResponse) => void
interface Seen {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
}

const quick: PolicyInput = { attempts: 3, backoff: { kind: 'fixed', base: 1 }, jitter: 'none' }
const ok: Handler = (_, response) => response.end('fine')
const hang: Handler = () => {}
const reset: Handler = request => request.socket.destroy()
const status =
  (code: number, headers: Record<string, string> = {}): Handler =>
  (_, response) =>
    response.writeHead(code, headers).end(`answer ${code}`)

const stops: (() => Promise<unknown>)[] = []
afterEach(async () => {
  await Promise.all(stops.splice(0).map(stop => stop()))
})

/** A server that answers the n-th request with the n-th handler, and all further ones with the last. */
async function serve(...handlers: Handler[]) {
  const seen: Seen[] = []
  /** The answers that are under way: somebody at the other end has not let go of them yet. */
  const held = new Set<ServerResponse>()
  const server = createServer(async (request, response) => {
    held.add(response)
    response.on('close', () => held.delete(response))
    const { method = '', url: path = '', headers } = request
    const entry = { method, path, headers, body: '' }
    seen.push(entry)
    const handler = handlers[Math.min(seen.length, handlers.length) - 1] ?? ok
    if (handler === reset) return reset(request, response)
    for await (const chunk of request) entry.body += chunk
    handler(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stops.push(() => {
    server.closeAllConnections()
    return new Promise(resolve => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const connections = () =>
    new Promise<number>((resolve, reject) => server.getConnections((error, n) => (error ? reject(error) : resolve(n))))
  return { url: `http://127.0.0.1:${address.port}/things`, seen, held, connections }
}

/** Lets a test wait for an event of a call. */
function listener() {
  const events: WorkEvent[] = []
  const waiting: { type: WorkEvent['type']; resolve: (event: WorkEvent) => void }[] = []
  const sink = (event: WorkEvent) => {
    events.push(event)
    for (const { type, resolve } of waiting) if (type === event.type) resolve(event)
  }
  const heard = (type: WorkEvent['type']) => new Promise<WorkEvent>(resolve => waiting.push({ type, resolve }))
  return { sink, events, heard }
}

/** Aborts a call while it waits for its next attempt, and expects it to reject with the reason. */
async function abortBetweenAttempts(url: string, clock: FakeClock): Promise<void> {
  const controller = new AbortController()
  const { sink, heard } = listener()
  const scheduled = heard('retry_scheduled')
  const call = retryFetch(url, { signal: controller.signal, policy: quick, retry: { clock, sink } })
  const rejected = expect(call).rejects.toBe('enough')
  await scheduled
  controller.abort('enough')
  await rejected
}

/** Waits until something is so. What never becomes so fails by the test's own timeout. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(resolve => setTimeout(resolve, 1))
}

describe('an answer', () => {
  it('of 200 is returned at once', async () => {
    const { url, seen } = await serve(ok)
    const response = await retryFetch(url)
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('fine')
    expect(seen).toHaveLength(1)
  })

  it('of 503 is asked for again, and the good one after it returned', async () => {
    const { url, seen } = await serve(status(503), status(500), ok)
    const response = await retryFetch(url, { policy: quick })
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('fine')
    expect(seen).toHaveLength(3)
  })

  it.each([400, 401, 403, 404, 409, 410, 422, 501])('of %i is returned at once, as an answer', async code => {
    const { url, seen } = await serve(status(code))
    const response = await retryFetch(url, { policy: quick })
    expect(response.status).toBe(code)
    expect(await response.text()).toBe(`answer ${code}`)
    expect(seen).toHaveLength(1)
  })

  it('that stays bad is returned in the end, its body unread', async () => {
    const { url, seen } = await serve(status(503))
    const response = await retryFetch(url, { policy: quick })
    expect(response.status).toBe(503)
    expect(response.bodyUsed).toBe(false)
    expect(await response.text()).toBe('answer 503')
    expect(seen).toHaveLength(3)
  })

  it('that came before the time to live was over is returned too', async () => {
    const { url, seen } = await serve(status(503))
    const response = await retryFetch(url, { policy: { ...quick, ttl: 0 } })
    expect(await response.text()).toBe('answer 503')
    expect(seen).toHaveLength(1)
  })

  it('is judged as the policy says', async () => {
    const { url, seen } = await serve(status(404), ok)
    expect((await retryFetch(url, { policy: { ...quick, retryOn: [404] } })).status).toBe(200)
    expect(seen).toHaveLength(2)
  })

  it('that redirects is followed, and is no failure where the caller does not want that', async () => {
    const { url, seen } = await serve(status(302, { location: '/elsewhere' }), ok)
    expect(await (await retryFetch(url)).text()).toBe('fine')
    expect(seen.map(({ path }) => path)).toEqual(['/things', '/elsewhere'])
    const { url: again } = await serve(status(302, { location: '/elsewhere' }))
    expect((await retryFetch(again, { redirect: 'manual' })).status).toBe(302)
  })
})

describe('Retry-After', () => {
  async function waitsFor(header: string, clock: FakeClock, ms: number) {
    const { url, seen } = await serve(status(429, { 'retry-after': header }), ok)
    const { sink, heard } = listener()
    const scheduled = heard('retry_scheduled')
    const call = retryFetch(url, { policy: quick, retry: { clock, sink } })
    expect(await scheduled).toMatchObject({ delayMs: ms })
    await clock.advance(ms - 1)
    expect(seen).toHaveLength(1)
    await clock.advance(1)
    expect((await call).status).toBe(200)
    expect(seen).toHaveLength(2)
  }

  it('in seconds is obeyed to the millisecond', async () => {
    await waitsFor('7', fakeClock(), 7000)
  })

  it('as a date is obeyed', async () => {
    const clock = fakeClock(Date.UTC(2024, 0, 1))
    await waitsFor('Mon, 01 Jan 2024 00:02:00 GMT', clock, 120_000)
  })

  it('of a 503 is obeyed as well', async () => {
    const clock = fakeClock()
    const { url } = await serve(status(503, { 'retry-after': '9' }), ok)
    const { sink, heard } = listener()
    const scheduled = heard('retry_scheduled')
    const call = retryFetch(url, { policy: quick, retry: { clock, sink } })
    expect(await scheduled).toMatchObject({ delayMs: 9000, verdict: { class: 'rate_limited' } })
    await clock.advance('9s')
    expect((await call).status).toBe(200)
  })
})

describe('a request', () => {
  it('that may change something is not repeated', async () => {
    for (const method of ['POST', 'PATCH', 'post']) {
      const { url, seen } = await serve(status(503), ok)
      const response = await retryFetch(url, { method, body: 'x', policy: quick })
      expect(response.status).toBe(503)
      expect(seen).toHaveLength(1)
    }
  })

  it('that may change something is not deferred either', async () => {
    const { url, seen } = await serve(status(429, { 'retry-after': '0' }), ok)
    const response = await retryFetch(url, { method: 'POST', policy: { ...quick, deferrals: 5 } })
    expect(response.status).toBe(429)
    expect(seen).toHaveLength(1)
  })

  it('that may change something and whose connection is lost rejects', async () => {
    const { url, seen } = await serve(reset, ok)
    const call = retryFetch(url, { method: 'POST', body: 'x', policy: quick })
    await expect(call).rejects.toMatchObject({ name: 'RetryExhaustedError', attempts: { length: 1 } })
    expect(seen).toHaveLength(1)
  })

  it('with an idempotency key is repeated, the key the same in all attempts', async () => {
    const { url, seen } = await serve(status(503), status(503), ok)
    const response = await retryFetch(url, { method: 'POST', body: 'pay', idempotencyKey: 'order-42', policy: quick })
    expect(response.status).toBe(200)
    expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual(['order-42', 'order-42', 'order-42'])
    expect(seen.map(({ body }) => body)).toEqual(['pay', 'pay', 'pay'])
  })

  it('gets a key made up where that is asked for: one per call, the same in all its attempts', async () => {
    const { url, seen } = await serve(status(503), ok, status(503), ok)
    for (let i = 0; i < 2; i++) await retryFetch(url, { method: 'POST', idempotencyKey: true, policy: quick })
    const keys = seen.map(({ headers }) => headers['idempotency-key'])
    expect(keys[0]).toMatch(/^[\x21-\x7e]{16,255}$/)
    expect([keys[0], keys[2]]).toEqual([keys[1], keys[3]])
    expect(keys[0]).not.toBe(keys[2])
  })

  it('with an Idempotency-Key among its own headers is repeated too', async () => {
    const { url, seen } = await serve(status(503), ok)
    const headers = { 'Idempotency-Key': 'mine', 'X-Other': 'kept' }
    expect((await retryFetch(url, { method: 'POST', headers, policy: quick })).status).toBe(200)
    expect(seen[1]?.headers).toMatchObject({ 'idempotency-key': 'mine', 'x-other': 'kept' })
  })

  it.each([
    ['', 'empty'],
    ['x'.repeat(256), 'too long'],
    ['with space', 'not visible ASCII'],
    ['line\nbreak', 'a line break'],
    ['schlüssel', 'not ASCII'],
  ])('with the key %j is refused before it is sent: %s', async idempotencyKey => {
    const send = vi.fn(fetch)
    const call = retryFetch('http://127.0.0.1:9/', { method: 'POST', idempotencyKey, fetch: send })
    await expect(call).rejects.toThrow(OptionError)
    await expect(call).rejects.toThrow(`'idempotencyKey'`)
    expect(send).not.toHaveBeenCalled()
  })

  it.each([
    ['text', () => 'whole body', 'whole body'],
    ['bytes', () => new TextEncoder().encode('whole body'), 'whole body'],
    ['parameters', () => new URLSearchParams({ a: '1' }), 'a=1'],
    ['a blob', () => new Blob(['whole body']), 'whole body'],
  ])('with a body of %s is repeated with the whole body', async (_, body, expected) => {
    const { url, seen } = await serve(status(503), reset, ok)
    const response = await retryFetch(url, { method: 'PUT', body: body(), policy: quick })
    expect(response.status).toBe(200)
    expect(seen.filter(({ body }) => body !== '').map(({ body }) => body)).toEqual([expected, expected])
    expect(seen).toHaveLength(3)
  })

  it('with a form is repeated with the whole form', async () => {
    const { url, seen } = await serve(status(503), ok)
    const body = new FormData()
    body.set('name', 'value')
    await retryFetch(url, { method: 'PUT', body, policy: quick })
    for (const { body } of seen) expect(body).toContain('value')
    expect(seen).toHaveLength(2)
  })

  it.each([
    ['a web stream', () => new Blob(['streamed']).stream()],
    ['a Node stream', () => Readable.from(['streamed'])],
    [
      'an async iterable',
      async function* () {
        yield 'streamed'
      },
    ],
  ])('whose body is %s is sent once: it cannot be read again', async (_, body) => {
    const { url, seen } = await serve(status(503), ok)
    const init = { method: 'PUT', body: body() as unknown as BodyInit, duplex: 'half', policy: quick }
    const response = await retryFetch(url, init)
    expect(response.status).toBe(503)
    expect(seen.map(({ body }) => body)).toEqual(['streamed'])
  })

  it('given as a Request object is repeated, with its method, headers and body', async () => {
    const { url, seen } = await serve(status(503), status(503), ok)
    const request = new Request(url, { method: 'PUT', body: 'whole body', headers: { 'X-Mine': 'yes' } })
    expect((await retryFetch(request, { policy: quick })).status).toBe(200)
    expect(seen.map(({ method, body, headers }) => [method, body, headers['x-mine']])).toEqual([
      ['PUT', 'whole body', 'yes'],
      ['PUT', 'whole body', 'yes'],
      ['PUT', 'whole body', 'yes'],
    ])
  })

  it('given as a Request object that may change something is not repeated', async () => {
    const { url, seen } = await serve(status(503), ok)
    expect((await retryFetch(new Request(url, { method: 'POST', body: 'x' }), { policy: quick })).status).toBe(503)
    expect(seen).toHaveLength(1)
  })

  it('given as a Request object with a key is repeated, and keeps its own headers', async () => {
    const { url, seen } = await serve(status(503), ok)
    const request = new Request(url, { method: 'POST', body: 'x', headers: { 'X-Mine': 'yes' } })
    expect((await retryFetch(request, { policy: quick, idempotencyKey: 'k' })).status).toBe(200)
    expect(seen[1]?.headers).toMatchObject({ 'idempotency-key': 'k', 'x-mine': 'yes' })
  })

  it('given as a Request object is aborted by the signal of that object', async () => {
    const { url } = await serve(hang)
    const controller = new AbortController()
    const call = retryFetch(new Request(url, { signal: controller.signal }), { policy: quick })
    controller.abort('enough')
    await expect(call).rejects.toBe('enough')
  })

  it('given as a URL object is sent there', async () => {
    const { url, seen } = await serve(ok)
    await retryFetch(new URL(`${url}?page=2`))
    expect(seen[0]?.path).toBe('/things?page=2')
  })

  it('leaves what it was given as it was', async () => {
    const { url } = await serve(status(503), ok)
    const headers = Object.freeze({ 'x-mine': 'yes' })
    const init = Object.freeze({ method: 'POST', headers, policy: Object.freeze(quick), idempotencyKey: 'k' })
    expect((await retryFetch(url, init)).status).toBe(200)
    const request = new Request(url, { headers })
    await retryFetch(request, { idempotencyKey: 'k' })
    expect([...request.headers]).toEqual([['x-mine', 'yes']])
  })
})

describe('trouble on the way', () => {
  it('such as a connection that is reset is retried', async () => {
    const { url, seen } = await serve(reset, ok)
    expect((await retryFetch(url, { policy: quick })).status).toBe(200)
    expect(seen).toHaveLength(2)
  })

  it('such as nobody listening is retried, and in the end rejects with what happened', async () => {
    const { url } = await serve(ok)
    await Promise.all(stops.splice(0).map(stop => stop()))
    const error = await retryFetch(url, { policy: quick }).catch(error => error)
    expect(error).toBeInstanceOf(RetryExhaustedError)
    expect(error.attempts.map(({ verdict }: { verdict: object }) => verdict)).toEqual(
      Array(3).fill({ class: 'retryable', code: 'ECONNREFUSED' }),
    )
  })

  it('such as a server that hangs is cut by the timeout and retried', async () => {
    for (const signal of [undefined, new AbortController().signal]) {
      const clock = fakeClock()
      const { url, seen, held } = await serve(hang, ok)
      const call = retryFetch(url, { signal, policy: { ...quick, timeout: '5s' }, retry: { clock } })
      await until(() => seen.length === 1)
      await clock.advance('5s')
      await until(() => held.size === 0)
      await clock.advance(1)
      expect((await call).status).toBe(200)
      expect(seen).toHaveLength(2)
    }
  })

  it('such as a URL that cannot be is a bug, and rejects at once', async () => {
    const send = vi.fn(fetch)
    await expect(retryFetch('no url', { policy: quick, fetch: send })).rejects.toThrow(TypeError)
    expect(send).toHaveBeenCalledTimes(1)
  })

  it('after a bad answer rejects: that answer is gone', async () => {
    const { url } = await serve(status(503), reset)
    const call = retryFetch(url, { policy: { ...quick, attempts: 2 } })
    await expect(call).rejects.toThrow(RetryExhaustedError)
  })
})

describe('an abort', () => {
  it('before the answer has come rejects with the reason, and closes the connection', async () => {
    const { url, seen, held } = await serve(hang)
    const controller = new AbortController()
    const call = retryFetch(url, { signal: controller.signal, policy: quick })
    const rejected = expect(call).rejects.toBe('enough')
    await until(() => seen.length === 1)
    controller.abort('enough')
    await rejected
    await until(() => held.size === 0)
  })

  it('while it waits for the next attempt rejects with the reason, and sends nothing more', async () => {
    const clock = fakeClock()
    const { url, seen } = await serve(status(503))
    await abortBetweenAttempts(url, clock)
    await clock.advance('1h')
    expect(seen).toHaveLength(1)
  })

  const endless: Handler = (_, response) => void response.write('the beginning, ')

  it('while the body is being read ends the reading, and closes the connection', async () => {
    const { url, held } = await serve(status(503), endless)
    const controller = new AbortController()
    const response = await retryFetch(url, { signal: controller.signal, policy: quick })
    const reading = response.text()
    const rejected = expect(reading).rejects.toBeDefined()
    controller.abort('enough')
    await rejected
    await until(() => held.size === 0)
  })

  it('while the body is being read works even after the garbage was collected', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const { url, held } = await serve(endless)
    const controller = new AbortController()
    const response = await retryFetch(url, { signal: controller.signal, policy: quick })
    for (let i = 0; i < 5; i++) {
      collect()
      await new Promise(resolve => setImmediate(resolve))
    }
    const rejected = expect(response.text()).rejects.toBeDefined()
    controller.abort('enough')
    await rejected
    await until(() => held.size === 0)
  })

  it('is not needed for a body that takes longer than the timeout of an attempt', async () => {
    const clock = fakeClock()
    const ends: (() => void)[] = []
    const { url } = await serve((_, response) => {
      response.write('slow ')
      ends.push(() => response.end('but complete'))
    })
    const response = await retryFetch(url, { policy: { ...quick, timeout: '5s' }, retry: { clock } })
    const reading = response.text()
    await clock.advance('1h')
    for (const end of ends) end()
    expect(await reading).toBe('slow but complete')
  })
})

describe('answers that were not good enough', () => {
  /** A bad answer whose body never ends: its connection is held until somebody lets go of it. */
  const endless503: Handler = (_, response) => void response.writeHead(503).write('x'.repeat(100_000))

  it('do not hold their connections once a better one has come', async () => {
    const { url, seen, held } = await serve(endless503, endless503, ok)
    const response = await retryFetch(url, { policy: quick })
    expect(await response.text()).toBe('fine')
    expect(seen).toHaveLength(3)
    await until(() => held.size === 0)
  })

  it('do not hold their connections when the call ends without another answer', async () => {
    const { url, held } = await serve(endless503, reset)
    await expect(retryFetch(url, { policy: { ...quick, attempts: 2 } })).rejects.toThrow()
    await until(() => held.size === 0)
  })

  it('do not hold their connections when the breaker opens', async () => {
    const { url, held } = await serve(endless503)
    const breaker = new CircuitBreaker('x', { minimumCalls: 1 })
    await expect(retryFetch(url, { policy: quick, retry: { breaker } })).rejects.toMatchObject({ code: 'breaker_open' })
    await until(() => held.size === 0)
  })

  it('do not hold their connections when the caller aborts', async () => {
    const { url, held } = await serve(endless503)
    await abortBetweenAttempts(url, fakeClock())
    await until(() => held.size === 0)
  })

  it('may be read by whoever hears of them: the call goes on', async () => {
    const { url } = await serve(endless503, ok)
    const sink = (event: WorkEvent) => {
      if (event.type === 'retry_scheduled' && event.failure instanceof HttpError) {
        event.failure.response.text().catch(() => {})
      }
    }
    expect((await retryFetch(url, { policy: quick, retry: { sink } })).status).toBe(200)
  })

  it('are not confused with an answer that came too late', async () => {
    const clock = fakeClock()
    const answers: ((response: Response) => void)[] = []
    // This one takes no notice of its signal.
    const send = () => new Promise<Response>(resolve => answers.push(resolve))
    const { sink, heard } = listener()
    const call = retryFetch('http://127.0.0.1/', {
      policy: { ...quick, attempts: 2, timeout: '5s' },
      retry: { clock, sink },
      fetch: send,
    })
    await clock.advance('5s')
    await clock.advance(1)
    expect(answers).toHaveLength(2)
    const gaveUp = heard('gave_up')
    const late = new Response('late', { status: 500 })
    answers[1]?.(new Response('the last', { status: 503 }))
    answers[0]?.(late)
    await gaveUp
    const response = await call
    expect(await response.text()).toBe('the last')
    await until(() => late.bodyUsed)
  })
})

describe('what is said of a fetch', () => {
  async function nameOf(input: string | URL | Request, init: RequestInit = {}) {
    const { sink, events } = listener()
    const send = async () => new Response('fine')
    await retryFetch(input, { ...init, fetch: send, retry: { sink } })
    return events[0]?.work.name
  }

  it('is its method and where it goes', async () => {
    expect(await nameOf('https://example.com/a/b')).toBe('GET https://example.com/a/b')
    expect(await nameOf(new URL('https://example.com/a'), { method: 'put' })).toBe('PUT https://example.com/a')
    expect(await nameOf(new Request('https://example.com/a', { method: 'DELETE' }))).toBe(
      'DELETE https://example.com/a',
    )
  })

  it('has no query and no fragment: they may hold secrets', async () => {
    expect(await nameOf('https://example.com/a?token=secret&x=/y')).toBe('GET https://example.com/a')
    expect(await nameOf('https://example.com/a#access_token=secret')).toBe('GET https://example.com/a')
    expect(await nameOf('https://example.com?token=\nsecret')).toBe('GET https://example.com')
  })

  it('has no credentials', async () => {
    expect(await nameOf('https://me:secret@example.com/a@b')).toBe('GET https://example.com/a@b')
    expect(await nameOf('https://me:sec@ret@example.com/a')).toBe('GET https://example.com/a')
    expect(await nameOf(new URL('https://me:secret@example.com/a'))).toBe('GET https://example.com/a')
  })

  it('keeps a path that looks like credentials', async () => {
    expect(await nameOf('https://example.com//me@home')).toBe('GET https://example.com//me@home')
  })

  it('can be said otherwise by the caller', async () => {
    const { sink, events } = listener()
    await retryFetch('https://example.com/', {
      fetch: async () => new Response(),
      retry: { sink, name: 'load things' },
    })
    expect(events[0]?.work.name).toBe('load things')
  })
})

describe('many fetches', () => {
  it('reuse their connections', async () => {
    const { url, connections } = await serve(ok)
    for (let i = 0; i < 50; i++) await (await retryFetch(url)).text()
    expect(await connections()).toBeLessThan(5)
  })

  it('leave nothing in the clock', async () => {
    const clock = fakeClock()
    const { url } = await serve(ok)
    const { signal } = new AbortController()
    for (let i = 0; i < 50; i++) {
      await (await retryFetch(url, { signal, policy: { timeout: '5s' }, retry: { clock } })).text()
    }
    expect(clock.timers).toBe(0)
  })
})
