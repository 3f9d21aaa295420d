import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { BROKER_MS, sharedBroker } from '../../test/services/shared-broker.js'
import { placeOf, startTracing } from '../../test/spans.js'
import { type Bus, MemoryBus } from '../bus/index.js'
import { openNats } from '../bus/nats/index.js'
import { openRabbitmq } from '../bus/rabbitmq/index.js'
import { type ConsumeOptions, consume, handleEvent, Outbox } from '../event/index.js'
import { FinalError } from '../policy/index.js'
import { MemoryStore, type NewTask } from '../store/index.js'

const OUTSIDE = { trace: '0af7651916cd43dd8448eb211c80319c', span: 'b7ad6b7169203331' }
const NO_DELAY = { backoff: { base: 0 }, jitter: 'none' } as const

let tracing: Awaited<ReturnType<typeof startTracing>>
let count = 0
beforeEach(async () => {
  tracing = await startTracing()
  count++
})
afterEach(() => tracing.stop())

interface Parsed {
  readonly id: string
}

async function opened(name: string): Promise<Bus> {
  if (name === 'memory') return new MemoryBus()
  const { url } = await sharedBroker(name === 'nats' ? 'nats' : 'rabbitmq')
  return name === 'nats' ? openNats(url, { prefix: 'traces' }) : openRabbitmq(url, { exchange: 'traces' })
}

/** A consumer of a queue of its own, and a way to publish to it. */
async function consumed(bus: Bus, handler: ConsumeOptions<Parsed>['handler']) {
  const [queue, type] = [`chunking${count}`, `json.parsed${count}`]
  const store = new MemoryStore()
  await bus.declare({ [queue]: type })
  const key = ({ id }: Parsed) => [id]
  const consumer = await consume<Parsed>(bus, queue, { service: 'chunking', key, store, policy: NO_DELAY, handler })
  const publish = (headers?: Record<string, string>) =>
    bus.publish({ id: 'e1', type, body: '{"id":"m1"}', ...(headers && { headers }) })
  return { store, publish, stop: () => consumer.stop(), id: `${queue}/e1`, type }
}

describe.each(['memory', 'rabbitmq', 'nats'])('an event on %s', name => {
  let bus: Bus
  beforeAll(async () => {
    bus = await opened(name)
    return () => bus.close()
  }, BROKER_MS)

  it('is handled in the trace that published it, and its retries link to it', async () => {
    const { store, publish, stop, id } = await consumed(bus, async (_, { attempt }) => {
      if (attempt < 2) throw new Error('not yet')
    })
    const { span: origin } = await tracing.within('POST /documents', () => publish())
    await expect.poll(() => tracing.spans('process chunking').length, { timeout: 20_000 }).toBe(2)
    await stop()
    const [first, retry] = tracing.spans('process chunking')
    expect(placeOf(first)).toEqual({ traceId: origin.traceId, parent: origin.spanId, links: [] })
    expect(placeOf(retry)).toMatchObject({ parent: undefined, links: [origin.spanId] })
    expect(first?.attributes).toMatchObject({ 'redrive.work': 'event', 'redrive.idempotency_key': 'chunking-m1' })
    const traces = [first, retry].map(span => span?.spanContext().traceId)
    expect((await store.ledger(id)).map(row => row.trace)).toEqual(traces)
  })

  it('that another program published takes its traceparent along, unless that is none', async () => {
    const { publish, stop } = await consumed(bus, () => {})
    await publish({ traceparent: `00-${OUTSIDE.trace}-${OUTSIDE.span}-01`, baggage: 'user=ada' })
    await publish({ traceparent: 'DROP TABLE task' })
    await expect.poll(() => tracing.spans('process chunking').length, { timeout: 20_000 }).toBe(2)
    await stop()
    const [first, second] = tracing.spans('process chunking')
    expect(placeOf(first)).toMatchObject({ traceId: OUTSIDE.trace, parent: OUTSIDE.span })
    expect(first?.parentSpanContext?.isRemote).toBe(true)
    expect(placeOf(second)).toMatchObject({ parent: undefined, links: [] })
  })
})

describe('the outbox', () => {
  it('carries the trace of the transaction to the consumer', async () => {
    const bus = new MemoryBus()
    const { store, stop, type } = await consumed(bus, () => {})
    const outbox = new Outbox(
      Object.assign(store, { enqueueIn: (_: undefined, tasks: readonly NewTask[]) => store.enqueue(tasks) }),
    )
    const { span: origin } = await tracing.within('POST /orders', () =>
      outbox.publish(undefined, { type, body: '{"id":"m1"}' }),
    )
    const relay = outbox.relay(bus)
    await relay.start()
    await expect.poll(() => tracing.spans('process chunking').length).toBe(1)
    await relay.stop()
    await stop()
    const [relayed] = tracing.spans('process outbox')
    expect(placeOf(relayed)).toMatchObject({ traceId: origin.traceId, parent: origin.spanId })
    const [handled] = tracing.spans('process chunking')
    expect(placeOf(handled)).toMatchObject({ traceId: origin.traceId, parent: relayed?.spanContext().spanId })
  })
})

describe('handleEvent', () => {
  const options = { service: 'chunking', key: 'chunking-m1', policy: NO_DELAY }

  it('handles an event in the trace of its message, and its retries link to that', async () => {
    const traceparent = `00-${OUTSIDE.trace}-${OUTSIDE.span}-01`
    const result = await handleEvent(
      async (_, { attempt }) => (attempt < 2 ? Promise.reject(new Error('not yet')) : 'stored'),
      { id: 'm1' },
      { ...options, traceparent },
    )
    expect(result).toBe('stored')
    const [first, retry] = tracing.spans('process chunking')
    expect(placeOf(first)).toEqual({ traceId: OUTSIDE.trace, parent: OUTSIDE.span, links: [] })
    expect(placeOf(retry)).toMatchObject({ parent: undefined, links: [OUTSIDE.span] })
    expect([first?.attributes['redrive.outcome'], retry?.attributes['redrive.outcome']]).toEqual(['retry', 'succeeded'])
  })

  it('is part of the span that is active, without a traceparent, and ends with a dead letter', async () => {
    const handled = tracing.within('consume', () =>
      handleEvent(() => Promise.reject(new FinalError('no', { code: 'bad_chunk' })), { id: 'm1' }, options),
    )
    await expect(handled).rejects.toThrow('no')
    const [attempt] = tracing.spans('process chunking')
    expect(placeOf(attempt)).toMatchObject({ parent: tracing.spans('consume')[0]?.spanContext().spanId })
    expect(attempt?.attributes).toMatchObject({ 'redrive.outcome': 'dead', 'error.type': 'bad_chunk' })
  })
})
