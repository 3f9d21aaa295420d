import { Registry, register } from 'prom-client'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { MemoryBus } from '../bus/index.js'
import { retry } from '../call/index.js'
import { type ConsumeOptions, consume, DocumentNotFoundError, type EventConsumer, handleEvent } from '../event/index.js'
import { FinalError } from '../policy/index.js'
import { presets } from '../presets/index.js'
import { MemoryStore } from '../store/internal.js'

import type { GaveUp, Sink } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { eventMetrics } from './index.js'

let clock: FakeClock
let registry: Registry
let sink: Sink
beforeEach(async () => {
  clock = fakeClock()
  registry = new Registry()
  sink = await eventMetrics({ registry, names: presets.events.metricNames })
})

/** The lines of a scrape, without those of buckets and those that are 0. */
async function scrape(): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n')
  return lines.filter(line => /^[^#]/.test(line) && !/_bucket|\} 0$/.test(line))
}

const notYet = () => {
  throw new DocumentNotFoundError('not yet')
}

describe('the metrics of handleEvent', () => {
  const handle = async (handler: (attempt: number) => unknown, options = {}) => {
    const given = { service: 'chunking', key: 'chunking-m1', random: () => 0.5, sink, clock, ...options }
    const handled = handleEvent((_, { attempt }) => handler(attempt), {}, given).catch(() => {})
    await clock.runAll()
    await handled
  }
  const succeedsAfter =
    (failures: number, tookMs = 0) =>
    async (attempt: number) => {
      await sleep(tookMs, clock)
      if (attempt <= failures) notYet()
    }

  it('tell of an event that succeeds: at which attempt, and how long after its first attempt began', async () => {
    await handle(succeedsAfter(0, 4000))
    // Three attempts of 2 s, and waits of 125 and 250 ms.
    await handle(succeedsAfter(2, 2000))
    expect(await scrape()).toEqual([
      'event_retry_success_total{service="chunking",attempt="1"} 1',
      'event_retry_success_total{service="chunking",attempt="3"} 1',
      'event_retry_latency_seconds_sum{service="chunking"} 10.375',
      'event_retry_latency_seconds_count{service="chunking"} 2',
      'event_retry_attempt_count_sum{service="chunking"} 4',
      'event_retry_attempt_count_count{service="chunking"} 2',
    ])
  })

  it('tell of dead letters, by the reason, and observe no latency for them', async () => {
    await handle(notYet)
    await handle(notYet, { policy: { attempts: 3 } })
    await handle(notYet, { policy: { ttl: 0 } })
    await handle(() => Promise.reject(new TypeError('a bug')))
    expect(await scrape()).toEqual([
      'event_retry_dlq_total{service="chunking",reason="max_attempts"} 2',
      'event_retry_dlq_total{service="chunking",reason="ttl_exceeded"} 1',
      'event_retry_dlq_total{service="chunking",reason="non_retryable"} 1',
      'event_retry_attempt_count_sum{service="chunking"} 13',
      'event_retry_attempt_count_count{service="chunking"} 4',
    ])
  })

  it('leave out an event that was aborted: it is to be delivered again', async () => {
    await handle(() => 'done', { signal: AbortSignal.abort() })
    expect(await scrape()).toEqual([])
  })

  it('count the dead letters of a service from 0, once it has begun', async () => {
    await handle(() => 'done')
    const zeros = (await registry.metrics()).split('\n').filter(line => line.startsWith('event_retry_dlq_total'))
    expect(zeros).toEqual([
      'event_retry_dlq_total{service="chunking",reason="max_attempts"} 0',
      'event_retry_dlq_total{service="chunking",reason="ttl_exceeded"} 0',
      'event_retry_dlq_total{service="chunking",reason="non_retryable"} 0',
    ])
  })

  it('have no key of an event in them, however many events there are', async () => {
    for (const id of ['m1', 'm2', 'm3']) await handle(succeedsAfter(1), { key: `chunking-${id}` })
    expect(await registry.metrics()).not.toMatch(/m[123]/)
    expect(await scrape()).toContain('event_retry_success_total{service="chunking",attempt="2"} 3')
  })

  it('have no more than 101 values for the attempt, whatever a policy allows', async () => {
    const policy = { attempts: 1000, backoff: 'none' }
    for (const failures of [99, 100, 500]) await handle(succeedsAfter(failures), { policy })
    expect((await scrape()).filter(line => line.includes('attempt='))).toEqual([
      'event_retry_success_total{service="chunking",attempt="100"} 1',
      'event_retry_success_total{service="chunking",attempt="over 100"} 2',
    ])
  })

  it('keep services apart', async () => {
    await handle(() => 'done')
    await handle(() => 'done', { service: 'embedding' })
    expect((await scrape()).filter(line => line.includes('success'))).toEqual([
      'event_retry_success_total{service="chunking",attempt="1"} 1',
      'event_retry_success_total{service="embedding",attempt="1"} 1',
    ])
  })
})

describe('the metrics of consume', () => {
  interface Parsed {
    readonly ids: string[]
  }
  let bus: MemoryBus
  let store: MemoryStore
  let consumers: EventConsumer<Parsed>[]
  beforeEach(async () => {
    bus = new MemoryBus()
    store = new MemoryStore({ clock })
    consumers = []
    await bus.declare({ chunking: 'json.parsed' })
  })
  afterEach(async () => {
    for (const consumer of consumers) await consumer.stop()
    await bus.close()
  })

  const start = async (handler: ConsumeOptions<Parsed>['handler'], options: Partial<ConsumeOptions<Parsed>> = {}) => {
    const key = (event: Parsed) => event.ids
    const policy = { jitter: 'none', attempts: 3 } as const
    const given = { service: 'chunking', key, store, policy, sink, clock, handler, ...options }
    const consumer = await consume<Parsed>(bus, 'chunking', given)
    consumers.push(consumer)
    return consumer
  }
  const publish = (id: string) => bus.publish({ id, type: 'json.parsed', body: JSON.stringify({ ids: [id] }) })
  const statusOf = async (id: string) => (await store.get(`chunking/${id}`))?.status

  it('tell of an event that succeeds at once', async () => {
    await start(() => {})
    await publish('m1')
    await expect
      .poll(scrape)
      .toEqual([
        'event_retry_success_total{service="chunking",attempt="1"} 1',
        'event_retry_latency_seconds_count{service="chunking"} 1',
        'event_retry_attempt_count_sum{service="chunking"} 1',
        'event_retry_attempt_count_count{service="chunking"} 1',
      ])
  })

  it('have the whole latency of an event that waited in the store while its consumer was replaced', async () => {
    const first = await start(notYet)
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('waiting')
    await first.stop()
    await clock.advance('1m')
    // Another process has a registry of its own.
    registry = new Registry()
    await start(() => {}, { sink: await eventMetrics({ registry, names: presets.events.metricNames }) })
    await expect.poll(() => statusOf('m1')).toBe('succeeded')
    expect(await scrape()).toEqual([
      'event_retry_success_total{service="chunking",attempt="2"} 1',
      'event_retry_latency_seconds_sum{service="chunking"} 60',
      'event_retry_latency_seconds_count{service="chunking"} 1',
      'event_retry_attempt_count_sum{service="chunking"} 2',
      'event_retry_attempt_count_count{service="chunking"} 1',
    ])
  })

  it.each(['store', 'failed-queue'] as const)(
    'count a dead letter once, with the %s as its home',
    async deadLetters => {
      await start(({ ids: [id] }) => (id === 'm1' ? Promise.reject(new FinalError('bad')) : notYet()), { deadLetters })
      await publish('m1')
      await publish('m2')
      await clock.advance('1m')
      const ended = [
        'event_retry_dlq_total{service="chunking",reason="max_attempts"} 1',
        'event_retry_dlq_total{service="chunking",reason="non_retryable"} 1',
        'event_retry_attempt_count_sum{service="chunking"} 4',
        'event_retry_attempt_count_count{service="chunking"} 2',
      ]
      await expect.poll(scrape).toEqual(ended)
      await expect.poll(async () => (await store.count({})).dead).toBe(deadLetters === 'store' ? 2 : 0)
      expect(await scrape()).toEqual(ended)
    },
  )

  it('do not take publishing a dead letter again for a success', async () => {
    const calls: string[] = []
    const failOnce = ({ ids: [id] }: Parsed) => {
      if (calls.push(String(id)) === 1) throw new FinalError('down')
    }
    await start(failOnce, { redrive: 'publish' })
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('dead')
    await clock.advance(1)
    await store.redrive(['chunking/m1'], { who: 'ada' })
    await expect.poll(() => calls).toEqual(['m1', 'm1'])
    await expect.poll(() => statusOf('m1')).toBe('skipped')
    expect(await scrape()).toContain('event_retry_success_total{service="chunking",attempt="1"} 1')
  })

  it('have no key of an event in them', async () => {
    await start(() => {})
    await publish('m1')
    await expect.poll(scrape).toContain('event_retry_success_total{service="chunking",attempt="1"} 1')
    expect(await registry.metrics()).not.toContain('m1')
  })
})

it('an event that ends for a reason that only calls have is counted as `other`', async () => {
  const gaveUp: GaveUp = {
    type: 'gave_up',
    work: { kind: 'event', id: 'm1', name: 'chunking' },
    at: 0,
    attempt: 2,
    maxAttempts: 8,
    durationMs: 0,
    failure: new Error('boom'),
    verdict: { class: 'retryable', code: 'unknown' },
    reason: 'budget_empty',
  }
  await sink(gaveUp)
  expect(await scrape()).toContain('event_retry_dlq_total{service="chunking",reason="other"} 1')
})

it('work that is no event is left out', async () => {
  await retry(() => 'done', {}, { sink, name: 'chunking' })
  expect(await scrape()).toEqual([])
})

it('the registry is that of prom-client, and the names are our own, unless others are given', async () => {
  await eventMetrics()
  expect(register.getMetricsAsArray().map(({ name }) => name)).toEqual([
    'redrive_event_successes_total',
    'redrive_event_latency_seconds',
    'redrive_event_dead_letters_total',
    'redrive_event_attempts',
  ])
  register.clear()
})

it('single names may be given', async () => {
  const mine = new Registry()
  await eventMetrics({ registry: mine, names: { deadLetters: 'my_dead_letters_total' } })
  expect(mine.getMetricsAsArray().map(({ name }) => name)).toContain('my_dead_letters_total')
  expect(mine.getMetricsAsArray().map(({ name }) => name)).toContain('redrive_event_attempts')
})

it('who makes metrics without having prom-client is told what to install', async () => {
  vi.doMock('prom-client', () => {
    throw new Error('Cannot find package')
  })
  onTestFinished(() => {
    vi.doUnmock('prom-client')
    vi.resetModules()
  })
  await expect(eventMetrics()).rejects.toMatchObject({
    code: 'missing_package',
    message: expect.stringContaining('npm install prom-client@^15.1'),
  })
})
