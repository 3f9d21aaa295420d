import { describe, expect, test } from 'vitest'
import { MemoryBus } from '../bus/index.js'
import { circuitBreaker, retry } from '../call/index.js'
import { consume, DocumentNotFoundError, handleEvent } from '../event/index.js'
import { extendPolicy, FinalError, policies, RateLimitedError } from '../policy/index.js'
import { MemoryStore } from '../store/index.js'
import { fakeClock } from '../testing/index.js'
import { type Logger, logTo } from './logger.js'
import { emit } from './sink.js'
import type { AttemptStarted, WorkEvent } from './work-events.js'

const work = { kind: 'call', id: 'w-1', name: 'load user' } as const

function listLogger() {
  const lines: { level: string; message: string; fields: Record<string, unknown> }[] = []
  const take = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, message, fields: { ...fields } })
  const logger: Logger = { debug: take('debug'), info: take('info'), warn: take('warn'), error: take('error') }
  return { lines, logger, take }
}

async function logged(fn: () => unknown, policy = {}, options = {}) {
  const { lines, logger } = listLogger()
  const clock = fakeClock()
  const given = { name: 'load user', clock, sink: logTo(logger), ...options }
  const call = retry(fn, { attempts: 3, jitter: 'none', ...policy }, given).catch(() => undefined)
  await clock.runAll()
  await call
  return lines
}

function failing(times: number, failure: unknown = new Error('boom')) {
  let calls = 0
  return () => {
    if (++calls <= times) throw failure
  }
}

const levels = (lines: { level: string; message: string }[]) =>
  lines.map(({ level, message }) => `${level}: ${message}`)

describe('the log of a call', () => {
  test('that fails for good warns of the last attempt and ends with an error', async () => {
    expect(levels(await logged(failing(3)))).toEqual([
      expect.stringMatching(/^debug: First attempt at 'load user' starts \(attempt 1/),
      `info: Attempt 1 of 3 at 'load user' failed: Error: boom. Retry in 1s, at 2000-01-01T00:00:01.000Z`,
      expect.stringMatching(/^debug: Retry at 'load user' starts \(attempt 2/),
      `warn: Attempt 2 of 3 at 'load user' failed: Error: boom. Last attempt in 2s, at 2000-01-01T00:00:03.000Z`,
      expect.stringMatching(/^debug: Retry at 'load user' starts \(attempt 3/),
      `error: Gave up on 'load user' (attempts_exhausted). Attempt 3 of 3 at 'load user' failed: Error: boom`,
    ])
  })

  test('that succeeds at once is all at debug, and after a retry at info', async () => {
    expect((await logged(failing(0))).map(line => line.level)).toEqual(['debug', 'debug'])
    expect(levels(await logged(failing(1))).at(-1)).toBe(`info: 'load user' succeeded at attempt 2, in 0ms`)
  })

  test('with a final error is an error', async () => {
    const lines = await logged(failing(1, new FinalError('no such user')))
    expect(lines.at(-1)).toMatchObject({ level: 'error', fields: { reason: 'final_error', attempt: 1 } })
  })

  test('that is deferred says until when, and that it costs nothing', async () => {
    const limited = new RateLimitedError('slow down', { retryAfterMs: 30_000 })
    expect(levels(await logged(failing(1, limited), { deferrals: 2 }))[1]).toBe(
      `info: Attempt 1 of 3 at 'load user' failed: RateLimitedError: slow down. ` +
        'Deferred, without costing an attempt: again in 30s, at 2000-01-01T00:00:30.000Z',
    )
  })

  test('that is deferred warns only if the attempt that comes again is the last', async () => {
    const limited = new RateLimitedError('slow down', { retryAfterMs: 30_000 })
    const early = await logged(failing(1, limited), { attempts: 2, deferrals: 2 })
    expect(early[1]).toMatchObject({ level: 'info', fields: { event: 'deferred' } })
    const lines = await logged(failing(1, limited), { attempts: 1, deferrals: 2 })
    expect(lines[1]).toMatchObject({ level: 'warn', fields: { event: 'deferred' } })
  })

  test('that times out says after how long', async () => {
    const lines = await logged(() => new Promise(() => undefined), { attempts: 1, timeout: '2s' })
    expect(levels(lines)[1]).toBe(`info: Attempt 1 at 'load user' timed out after 2s`)
  })

  test('that its caller aborted is no error', async () => {
    const lines = await logged(failing(1), {}, { signal: AbortSignal.abort() })
    expect(lines.map(line => line.level)).toEqual(['info'])
    expect(lines[0]?.message).toContain(`'load user' was aborted`)
  })

  test('that a breaker keeps back is an error', async () => {
    const breaker = circuitBreaker('log test', { minimumCalls: 1, failureRate: 1 })
    const lines = await logged(failing(9), {}, { breaker })
    expect(lines.at(-1)).toMatchObject({ level: 'error', fields: { reason: 'breaker_open' } })
  })

  test('has what a line says as fields too, and who it was for', async () => {
    const [, line] = await logged(
      failing(1),
      {},
      {
        id: 'w-1',
        category: 'API_REQUEST',
        tenantId: 't',
        correlationId: 'c',
        context: { token: 'x' },
      },
    )
    expect(line?.fields).toEqual({
      event: 'retry_scheduled',
      at: '2000-01-01T00:00:00.000Z',
      workKind: 'call',
      workId: 'w-1',
      operation: 'load user',
      category: 'API_REQUEST',
      tenantId: 't',
      correlationId: 'c',
      context: { token: '[redacted]' },
      attempt: 1,
      maxAttempts: 3,
      durationMs: 0,
      error: { name: 'Error', message: 'boom' },
      verdict: { class: 'retryable', code: 'unknown' },
      delayMs: 1000,
      nextAttemptAt: '2000-01-01T00:00:01.000Z',
    })
  })

  test('stays one line per event, without secrets', async () => {
    const lines = await logged(failing(1, new Error('a\nb token=abc')), {}, { name: 'x\n\u001b[2J' })
    expect(lines[1]?.message).toContain(`at 'x \ufffd[2J' failed: Error: a b token=[redacted]. Retry`)
  })
})

describe('the log of an event', () => {
  const policy = extendPolicy(policies.event, { attempts: 3, jitter: 'none' })
  const notYet = new DocumentNotFoundError('not yet')

  async function handled(handler: () => unknown) {
    const { lines, logger } = listLogger()
    const clock = fakeClock()
    const options = { service: 'chunking', key: 'chunking-m1', policy, clock, sink: logTo(logger) }
    const handled = handleEvent(handler, {}, options).catch(() => undefined)
    await clock.runAll()
    await handled
    return lines
  }

  test('that becomes a dead letter names it by its key, warns of the last attempt and ends with an error', async () => {
    const lines = await handled(failing(3, notYet))
    const failed = (attempt: number) =>
      `Attempt ${attempt} of 3 at 'chunking-m1' failed: DocumentNotFoundError: not yet`
    expect(levels(lines)).toEqual([
      `debug: First attempt at 'chunking-m1' starts (attempt 1 of 3)`,
      `info: ${failed(1)}. Retry in 250ms, at 2000-01-01T00:00:00.250Z`,
      `debug: Retry at 'chunking-m1' starts (attempt 2 of 3)`,
      `warn: ${failed(2)}. Last attempt in 500ms, at 2000-01-01T00:00:00.750Z`,
      `debug: Retry at 'chunking-m1' starts (attempt 3 of 3)`,
      `error: Gave up on 'chunking-m1' (attempts_exhausted). ${failed(3)}`,
    ])
    const about = { workKind: 'event', operation: 'chunking', idempotencyKey: 'chunking-m1' }
    for (const { fields } of lines) expect(fields).toMatchObject(about)
  })

  test('that succeeds after a retry says how long it took in all', async () => {
    const lines = await handled(failing(2, notYet))
    expect(levels(lines).at(-1)).toBe(`info: 'chunking-m1' succeeded at attempt 3, in 0ms (750ms in all)`)
    expect(lines.at(-1)?.fields).toMatchObject({ attempt: 3, durationMs: 0, totalMs: 750 })
  })

  test('from a bus has its key in every line, whoever makes the attempt and whatever was delivered', async () => {
    const { lines, logger } = listLogger()
    const clock = fakeClock()
    const bus = new MemoryBus()
    await bus.declare({ chunks: 'json.parsed' })
    const consumer = await consume(bus, 'chunks', {
      service: 'chunking',
      key: (event: { ids: string[] }) => event.ids,
      store: new MemoryStore({ clock }),
      handler: failing(1, notYet),
      policy,
      clock,
      sink: logTo(logger),
    })
    await bus.publish({ id: 'a', type: 'json.parsed', body: '{"ids":["m1","m2"]}' })
    await clock.advance('1s')
    await bus.publish({ id: 'b', type: 'json.parsed', body: 'no JSON' })
    await expect.poll(() => lines.at(-1)?.level).toBe('error')
    await consumer.stop()
    await bus.close()
    expect(lines.map(({ fields }) => `${fields.event} ${fields.idempotencyKey}`)).toEqual([
      'attempt_started chunking-m1-m2',
      'retry_scheduled chunking-m1-m2',
      'attempt_started chunking-m1-m2',
      'attempt_succeeded chunking-m1-m2',
      'attempt_started chunking-unknown',
      'gave_up chunking-unknown',
    ])
  })
})

test('an attempt after a deferral is told from a first one', () => {
  const { lines, logger } = listLogger()
  const started: AttemptStarted = { type: 'attempt_started', work, at: 0, attempt: 1, maxAttempts: 3, deferrals: 0 }
  emit(logTo(logger), started)
  emit(logTo(logger), { ...started, deferrals: 1 })
  expect(lines.map(line => line.message)).toEqual([
    `First attempt at 'load user' starts (attempt 1 of 3)`,
    `Retry at 'load user' starts (attempt 1 of 3)`,
  ])
})

test('idempotency keys are logged, and a key that could not be recorded is a warning', () => {
  const { lines, logger } = listLogger()
  const events: WorkEvent[] = [
    { type: 'idempotency_hit', work, at: 0, key: 'k' },
    { type: 'idempotency_recorded', work, at: 0, key: 'k' },
    { type: 'idempotency_not_recorded', work, at: 0, key: 'k', failure: new Error('store down') },
  ]
  for (const event of events) emit(logTo(logger), event)
  expect(lines.map(line => [line.level, line.fields.idempotencyKey])).toEqual([
    ['info', 'k'],
    ['debug', 'k'],
    ['warn', 'k'],
  ])
})

// The overloads of pino's own LogFn, versions 8 and 10 in turn; that they fit is checked by the compiler.
interface Pino8LogFn {
  <T extends object>(obj: T, msg?: string, ...args: unknown[]): void
  (obj: unknown, msg?: string, ...args: unknown[]): void
  (msg: string, ...args: unknown[]): void
}
type Placeholders<T, Found extends unknown[] = []> = T extends `${string}%${infer Kind}${infer Rest}`
  ? Kind extends 'd' | 's' | 'j' | 'o' | 'O'
    ? Placeholders<Rest, [...Found, unknown]>
    : Placeholders<Rest, Found>
  : Found
interface Pino10LogFn {
  <M extends string = string>(msg: M, ...args: Placeholders<M>): void
  <T, M extends string = string>(
    obj: [T] extends [object] ? T : T,
    msg?: T extends string ? never : M,
    ...args: Placeholders<M> | []
  ): void
  <T, M extends string = string>(
    obj: [T] extends [object] ? T : T,
    msg?: T extends string ? never : M,
    ...args: Placeholders<M> extends [unknown, ...unknown[]] ? Placeholders<M> : unknown[]
  ): void
}
type Levels<Fn> = Record<'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent', Fn>

test('a logger of pino, of any version, is a Logger', () => {
  const { lines, take } = listLogger()
  const log = take('any') as Pino8LogFn & Pino10LogFn
  const pino8: Levels<Pino8LogFn> = {
    fatal: log,
    error: log,
    warn: log,
    info: log,
    debug: log,
    trace: log,
    silent: log,
  }
  const pino10: Levels<Pino10LogFn> = pino8 as Levels<Pino8LogFn & Pino10LogFn>
  const loggers: Logger[] = [pino8, pino10]
  for (const logger of loggers)
    emit(logTo(logger), { type: 'attempt_started', work, at: 0, attempt: 1, maxAttempts: 3, deferrals: 0 })
  expect(lines).toHaveLength(2)
  // @ts-expect-error: a logger that takes only a message is none.
  const messageOnly: Logger = { ...pino8, info: (message: string) => message }
  expect(messageOnly).toBeDefined()
})

test('a loss is logged as one, with the attempt that it does not cost', () => {
  const { lines, logger } = listLogger()
  const sink = logTo(logger)
  const verdict = { class: 'retryable', code: 'lost' } as const
  const failure = new Error('The worker died.')
  const about = { work, at: 0, attempt: 3, maxAttempts: 4, durationMs: 0, failure, verdict }
  sink({ ...about, type: 'retry_scheduled', delayMs: 0, nextAttemptAt: 0 })
  sink({ ...about, type: 'gave_up', reason: 'losses_exhausted' })
  expect(lines.map(({ level, message }) => `${level}: ${message}`)).toEqual([
    "info: The worker died during attempt 3 of 4 at 'load user'. It runs again, at no cost, in 0ms, at 1970-01-01T00:00:00.000Z",
    "error: Gave up on 'load user' (losses_exhausted). The worker died during attempt 3 of 4 at 'load user'",
  ])
})
