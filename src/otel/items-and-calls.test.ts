import { trace } from '@opentelemetry/api'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { placeOf, startTracing } from '../../test/spans.js'
import { retry } from '../call/index.js'
import { batch, pipeline, stage } from '../pipeline/index.js'
import { FinalError } from '../policy/index.js'
import { MemoryStore } from '../store/index.js'
import { spanEvents } from './index.js'

let tracing: Awaited<ReturnType<typeof startTracing>>
beforeEach(async () => {
  tracing = await startTracing()
})
afterEach(() => tracing.stop())

const NO_DELAY = { backoff: { base: 0 }, jitter: 'none' } as const

describe('an item of a pipeline', () => {
  it('goes through its stages in the trace that started the run, and its retries link to it', async () => {
    const store = new MemoryStore()
    const failed = new Set<number>()
    const put = (n: number) => {
      if (n === 3 && !failed.has(n) && failed.add(n)) throw new Error('not yet')
      return n
    }
    const enrich = pipeline(
      'enrich',
      stage('fetch', (n: number) => n + 1),
      stage('store', put, { policy: NO_DELAY }),
    )
    const { span: origin } = await tracing.within('import', () => enrich.run([1, 2], { store, id: 'r' }))
    const fetched = tracing.spans('process enrich/fetch')
    const stored = tracing.spans('process enrich/store')
    expect(fetched.map(placeOf)).toEqual(
      [1, 2].map(() => ({ traceId: origin.traceId, parent: origin.spanId, links: [] })),
    )
    expect(stored).toHaveLength(3)
    const again = stored.filter(span => span.parentSpanContext === undefined)
    expect(again.map(placeOf)).toMatchObject([{ links: [origin.spanId] }])
    expect(stored[0]?.attributes).toMatchObject({
      'redrive.work': 'item',
      'redrive.run': 'r',
      'redrive.stage': 'store',
    })
    const traces = (await store.ledger('r:000000000001')).map(({ outcome, trace }) => [outcome, trace])
    expect(traces).toEqual([
      ['advanced', origin.traceId],
      ['retry', origin.traceId],
      ['succeeded', again[0]?.spanContext().traceId],
    ])
  })

  it('of a batch stage is called in a span that links to those of all its items', async () => {
    const store = new MemoryStore()
    const embed = (items: readonly number[]) => {
      trace.getTracer('test').startSpan('POST /embeddings').end()
      return items
    }
    const both = pipeline('enrich', batch('embed', embed, { size: 2 }))
    await tracing.within('import', () => both.run([1, 2], { store }))
    const [call] = tracing.spans('process embed')
    const items = tracing.spans('process enrich/embed')
    expect(placeOf(call)).toMatchObject({ parent: undefined })
    expect(new Set(placeOf(call).links)).toEqual(new Set(items.map(span => span.spanContext().spanId)))
    expect(call?.attributes['messaging.batch.message_count']).toBe(2)
    expect(placeOf(tracing.spans('POST /embeddings')[0])).toMatchObject({ parent: call?.spanContext().spanId })
  })
})

describe('a call', () => {
  it('adds its failures and retries to the active span', async () => {
    const sink = await spanEvents()
    let calls = 0
    const work = async () => {
      if (++calls < 3) throw Object.assign(new Error('token=abc123secret is bad'), { status: 503 })
      return 'charged'
    }
    await tracing.within('POST /orders', () => retry(work, { attempts: 3, ...NO_DELAY }, { name: 'charge', sink }))
    const events = tracing.spans('POST /orders')[0]?.events
    expect(
      events?.map(({ name, attributes }) => [name, attributes?.['redrive.call'], attributes?.['redrive.attempt']]),
    ).toEqual([
      ['redrive.retry_scheduled', 'charge', 1],
      ['redrive.retry_scheduled', 'charge', 2],
      ['redrive.attempt_succeeded', 'charge', 3],
    ])
    expect(events?.[0]?.attributes).toMatchObject({ 'error.type': 'http_503', 'redrive.delay_ms': 0 })
    expect(JSON.stringify(events)).not.toContain('abc123secret')
  })

  it('adds nothing when it succeeds at once, and needs no active span', async () => {
    const sink = await spanEvents()
    await tracing.within('POST /orders', () => retry(() => 'done', {}, { sink }))
    expect(tracing.spans('POST /orders')[0]?.events).toEqual([])
    await expect(retry(() => Promise.reject(new FinalError('no')), {}, { sink })).rejects.toThrow('no')
  })
})
