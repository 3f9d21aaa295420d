import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { AlwaysOffSampler, BasicTracerProvider } from '@opentelemetry/sdk-trace-base'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { freshDatabase } from '../../test/services/fresh-database.js'
import { placeOf, startTracing } from '../../test/spans.js'
import { readJson } from '../../test/subpaths.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { MemoryStore, type StoreContract } from '../store/internal.js'
import { openPostgres } from '../store/postgres/internal.js'
import { openSqlite } from '../store/sqlite/internal.js'

import { defineTask, later, type TaskHandler, TaskQueue, Worker } from '../task/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { traceWork } from './index.js'

let tracing: Awaited<ReturnType<typeof startTracing>>
beforeEach(async () => {
  tracing = await startTracing()
})
afterEach(() => tracing.stop())

const POLICY = { attempts: 3, backoff: { base: 0 }, jitter: 'none' } as const
const charge = (handler: TaskHandler<{ order: number }, unknown>) => defineTask('charge', { policy: POLICY, handler })

/** Runs a handler for one task that is enqueued within a span, until the task has ended. */
async function runOne(store: StoreContract, handler: TaskHandler<{ order: number }, unknown>) {
  const task = charge(handler)
  const queue = new TaskQueue(store)
  const events: WorkEvent[] = []
  const worker = new Worker(store, { tasks: [task], sink: event => events.push(event) })
  await worker.start()
  try {
    const { result, span } = await tracing.within('POST /orders', () => queue.enqueue(task, { order: 42 }))
    const { id } = result
    const isOver = async () => ['succeeded', 'dead'].includes((await store.get(id))?.status ?? '')
    await expect.poll(isOver, { timeout: 20_000, interval: 5 }).toBe(true)
    return { id, origin: span, events }
  } finally {
    await worker.stop()
  }
}

async function storesOf(name: string): Promise<{ readonly store: StoreContract; readonly close: () => Promise<void> }> {
  if (name === 'memory') {
    const store = new MemoryStore()
    return { store, close: () => store.close() }
  }
  if (name === 'postgres') {
    const store = await openPostgres(await freshDatabase())
    return { store, close: () => store.close() }
  }
  const folder = mkdtempSync(join(tmpdir(), 'redrive-otel-'))
  const store = await openSqlite(join(folder, 'redrive.db'))
  return { store, close: () => store.close().then(() => rmSync(folder, { recursive: true })) }
}

describe.each(['memory', 'sqlite', 'postgres'])('a traced task on %s', name => {
  let store: StoreContract
  let close: () => Promise<void>
  beforeEach(async () => {
    ;({ store, close } = await storesOf(name))
  }, 120_000)
  afterEach(() => close())

  it('has a span for each attempt at a step, within that of its own attempt', async () => {
    let calls = 0
    const pay = async () => {
      trace.getTracer('test').startSpan('SELECT').end()
      if (calls++ === 0) throw new Error('down')
      return 'paid'
    }
    const { id } = await runOne(store, (_, task) => task.step('pay', pay))
    const [attempt] = tracing.spans('process charge')
    const steps = tracing.spans('step pay')
    expect(steps.map(({ attributes }) => attributes['redrive.outcome'])).toEqual(['retry', 'succeeded'])
    const traceId = attempt?.spanContext().traceId
    for (const step of steps) {
      expect(step.kind).toBe(SpanKind.INTERNAL)
      expect(step.attributes).toMatchObject({ 'redrive.work': 'step', 'redrive.step': 'pay' })
      expect(placeOf(step)).toEqual({ traceId, parent: attempt?.spanContext().spanId, links: [] })
    }
    expect(placeOf(tracing.spans('SELECT')[0])).toMatchObject({ parent: steps[0]?.spanContext().spanId })
    expect((await store.get(id))?.status).toBe('succeeded')
  })

  it('runs in the trace that enqueued it, and what its handler does is part of it', async () => {
    const { id, origin } = await runOne(store, async () => {
      trace.getTracer('test').startSpan('SELECT').end()
      return 'charged'
    })
    const [attempt] = tracing.spans('process charge')
    expect(attempt?.kind).toBe(SpanKind.CONSUMER)
    expect(placeOf(attempt)).toEqual({ traceId: origin.traceId, parent: origin.spanId, links: [] })
    expect(placeOf(tracing.spans('SELECT')[0])).toMatchObject({ parent: attempt?.spanContext().spanId })
    expect(attempt?.attributes).toEqual({
      'messaging.system': 'redrive',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.destination.name': 'charge',
      'messaging.message.id': id,
      'redrive.work': 'task',
      'redrive.attempt': 1,
      'redrive.max_attempts': 3,
      'redrive.outcome': 'succeeded',
    })
    expect((await store.ledger(id)).map(row => row.trace)).toEqual([origin.traceId])
  })

  it('begins a trace of its own for each retry, with a link, and the ledger has them all', async () => {
    const { id, origin, events } = await runOne(store, async (_, { attempt }) => {
      if (attempt < 3) throw Object.assign(new Error('connect to postgres://app:hunter2@db failed'), { status: 503 })
    })
    const [first, ...retries] = tracing.spans('process charge')
    expect(placeOf(first)).toEqual({ traceId: origin.traceId, parent: origin.spanId, links: [] })
    expect(first?.status.code).toBe(SpanStatusCode.ERROR)
    expect(first?.attributes).toMatchObject({ 'redrive.outcome': 'retry', 'error.type': 'http_503' })
    expect(JSON.stringify([first?.status, first?.events])).not.toContain('hunter2')
    expect(first?.events[0]?.attributes?.['exception.message']).toContain('connect to')
    expect(retries).toHaveLength(2)
    for (const retry of retries) expect(placeOf(retry)).toMatchObject({ parent: undefined, links: [origin.spanId] })
    const traces = [first, ...retries].map(span => span?.spanContext().traceId)
    expect(new Set(traces).size).toBe(3)
    expect((await store.ledger(id)).map(row => row.trace)).toEqual(traces)
    expect(events.filter(event => event.type === 'attempt_started').map(event => event.work.traceId)).toEqual(traces)
  })

  it('names the traces of its first and its last attempt when it is dead', async () => {
    const { id, origin } = await runOne(store, async () => {
      throw new FinalError('declined')
    })
    const letter = await new TaskQueue(store).deadLetter(id)
    expect(letter?.traces).toEqual({ first: origin.traceId, last: origin.traceId })
    await store.redrive([id], { who: 'ann' })
    const worker = new Worker(store, { tasks: [charge(() => Promise.reject(new FinalError('declined')))] })
    await worker.start()
    await expect.poll(async () => (await store.ledger(id)).length, { timeout: 20_000, interval: 5 }).toBe(3)
    await worker.stop()
    const [, again] = tracing.spans('process charge')
    expect(placeOf(again)).toMatchObject({ parent: undefined, links: [origin.spanId] })
    const dead = await new TaskQueue(store).deadLetter(id)
    expect(dead?.traces).toEqual({ first: origin.traceId, last: again?.spanContext().traceId })
  })
})

describe('tracing', () => {
  it('begins a trace of its own for a task that was enqueued outside any span', async () => {
    const store = new MemoryStore()
    const { id } = await new TaskQueue(store).enqueue(
      charge(() => 'done'),
      { order: 1 },
    )
    expect((await store.get(id))?.traceparent).toBeUndefined()
    const worker = new Worker(store, { tasks: [charge(() => 'done')] })
    // A worker that is started within a span does not draw its tasks into it.
    await tracing.within('start', () => worker.start())
    await expect.poll(() => tracing.spans('process charge').length).toBe(1)
    await worker.stop()
    const [attempt] = tracing.spans('process charge')
    expect(placeOf(attempt)).toMatchObject({ parent: undefined, links: [] })
    expect((await store.ledger(id)).map(row => row.trace)).toEqual([attempt?.spanContext().traceId])
  })

  it('tells a rate limit, a wait and a timeout by the outcome of their spans', async () => {
    const ends = [
      () => Promise.reject(new RateLimitedError('slow down', { retryAfterMs: 1 })),
      () => later(1),
      () => Promise.reject(new FinalError('no', { code: 'declined' })),
    ]
    await runOne(new MemoryStore(), () => ends.shift()?.())
    const outcomes = tracing.spans('process charge').map(({ attributes }) => attributes)
    expect(outcomes).toMatchObject([
      { 'redrive.outcome': 'deferred', 'error.type': 'rate_limited', 'redrive.attempt': 1 },
      { 'redrive.outcome': 'later', 'redrive.delay_ms': 1 },
      { 'redrive.outcome': 'dead', 'redrive.reason': 'final_error', 'error.type': 'declined' },
    ])
  })

  it('leaves the decision what is recorded to the sampler, and names no trace that is not', async () => {
    await tracing.stop()
    tracing = await startTracing({ sampler: new AlwaysOffSampler() })
    const store = new MemoryStore()
    const { id, origin } = await runOne(store, () => Promise.reject(new FinalError('no')))
    expect(tracing.spans()).toEqual([])
    expect((await store.get(id))?.traceparent).toBe(`00-${origin.traceId}-${origin.spanId}-00`)
    expect((await store.ledger(id)).map(row => row.trace)).toEqual([undefined])
  })

  it('that fails, because a sampler throws, leaves the work alone', async () => {
    await tracing.stop()
    const shouldSample = () => {
      throw new Error('broken sampler')
    }
    const stop = await traceWork({
      tracerProvider: new BasicTracerProvider({ sampler: { shouldSample, toString: () => '' } }),
    })
    const warned = new Promise(resolve => process.once('warning', resolve))
    const store = new MemoryStore()
    const { id } = await runOne(store, () => 'done')
    expect((await store.get(id))?.status).toBe('succeeded')
    expect(await warned).toMatchObject({ code: 'tracing_failed' })
    stop()
  })

  it('names the package and its version as its scope', async () => {
    await runOne(new MemoryStore(), () => 'done')
    const [span] = tracing.spans('process charge')
    const { version } = readJson('package.json')
    expect(span?.instrumentationScope).toMatchObject({ name: 'redrive', version })
  })

  it('that fails, because spans throw, leaves the work alone', async () => {
    const broken = () => {
      throw new Error('broken span')
    }
    const span = { spanContext: broken, setAttributes: broken, end: broken } as unknown as Span
    const tracer = { startSpan: () => span, startActiveSpan: broken }
    const stop = await traceWork({ tracerProvider: { getTracer: () => tracer } })
    const store = new MemoryStore()
    const { id } = await runOne(store, () => 'done')
    expect(await store.get(id)).toMatchObject({ status: 'succeeded', result: '"done"' })
    stop()
  })

  it('that fails, because the context cannot be set, neither repeats nor hides the work', async () => {
    await tracing.stop()
    const provider = new BasicTracerProvider()
    const stop = await traceWork({ tracerProvider: provider })
    const manager = new AsyncLocalStorageContextManager()
    const fails = (isBefore: boolean) =>
      Object.assign(Object.create(manager) as typeof manager, {
        with: (of: Context, work: (span?: Span) => unknown, _: unknown, span?: Span) => {
          // The test's own span records nothing.
          if (!trace.getSpan(of)?.isRecording()) return work(span)
          if (!isBefore) work()
          throw new Error('broken context')
        },
      })
    for (const isBefore of [true, false]) {
      const store = new MemoryStore()
      let calls = 0
      context.setGlobalContextManager(fails(isBefore))
      const { id } = await runOne(store, () => {
        if (++calls === 1) throw new Error('not yet')
        return 'done'
      })
      context.disable()
      expect([calls, (await store.ledger(id)).map(({ outcome, error }) => [outcome, error])]).toEqual([
        2,
        [
          ['retry', 'Error: not yet'],
          ['succeeded', undefined],
        ],
      ])
    }
    stop()
  })

  it('ends with the function that it returned: work is no longer traced', async () => {
    const store = new MemoryStore()
    await tracing.stop()
    const { id } = await runOne(store, () => 'done')
    expect((await store.get(id))?.traceparent).toBeUndefined()
  })
})
