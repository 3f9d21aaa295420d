import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Registry } from 'prom-client'
import { beforeEach, describe, expect, it } from 'vitest'
import { findProgram } from '../../test/services/programs.js'
import { MemoryBus } from '../bus/index.js'
import { bulkhead, CircuitBreaker, RetryManager, retry } from '../call/index.js'
import { consume, handleEvent } from '../event/index.js'
import { pipeline, stage } from '../pipeline/index.js'
import { FinalError, RateLimitedError, RetryableError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'

import { defineTask, TaskQueue, Worker } from '../task/index.js'
import { fanOut, type Sink, type WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { storeMetrics, workMetrics } from './index.js'

let clock: FakeClock
let registry: Registry
let sink: Sink
beforeEach(async () => {
  clock = fakeClock()
  registry = new Registry()
  sink = await workMetrics({ registry })
})

/** The series that are not 0, without the parts of histograms. */
async function scrape(): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n')
  return lines.filter(line => /^redrive/.test(line) && !/ 0$/.test(line) && !/_bucket|_sum/.test(line))
}

const status = (status: number) => Object.assign(new Error('The service says no'), { status })

describe('calls', () => {
  it('are counted by category: attempts, failures by class of code, and why they were given up', async () => {
    const manager = new RetryManager({ categories: { PAYMENTS: { attempts: 2, backoff: 'none' } }, sink })
    await manager.execute('PAYMENTS', 'charge card 42', ({ attempt }) => {
      if (attempt === 1) throw status(503)
    })
    await manager.execute('PAYMENTS', 'charge card 43', () => Promise.reject(status(502))).catch(() => {})
    const gone = new FinalError('no such card', { code: 'http_404' })
    await manager.execute('PAYMENTS', 'charge card 44', () => Promise.reject(gone)).catch(() => {})
    expect(await scrape()).toEqual([
      'redrive_attempts_total{kind="call",category="PAYMENTS",outcome="succeeded"} 1',
      'redrive_attempts_total{kind="call",category="PAYMENTS",outcome="failed"} 4',
      'redrive_failures_total{kind="call",category="PAYMENTS",code="http_5xx",decision="retry"} 2',
      'redrive_failures_total{kind="call",category="PAYMENTS",code="http_5xx",decision="give_up"} 1',
      'redrive_failures_total{kind="call",category="PAYMENTS",code="http_4xx",decision="give_up"} 1',
      'redrive_calls_given_up_total{kind="call",category="PAYMENTS",reason="attempts_exhausted"} 1',
      'redrive_calls_given_up_total{kind="call",category="PAYMENTS",reason="final_error"} 1',
      'redrive_attempt_duration_seconds_count{kind="call",category="PAYMENTS"} 5',
    ])
    expect(await registry.metrics()).not.toContain('card')
  })

  it('that a breaker refuses are given up, but were no attempts', async () => {
    const breaker = new CircuitBreaker('payments')
    breaker.open()
    await retry(() => 'done', {}, { sink, breaker }).catch(() => {})
    expect(await scrape()).toEqual(['redrive_calls_given_up_total{kind="call",category="",reason="breaker_open"} 1'])
  })

  it('that time out or are deferred are counted as such', async () => {
    const slow = retry(() => new Promise(() => {}), { attempts: 1, timeout: '1s' }, { sink, clock }).catch(() => {})
    await clock.runAll()
    await slow
    let calls = 0
    const throttledOnce = () =>
      ++calls === 1 ? Promise.reject(new RateLimitedError('slow down', { retryAfterMs: 1000 })) : 'done'
    const throttled = retry(throttledOnce, { deferrals: 1 }, { sink, clock, category: 'LLM' })
    await clock.runAll()
    await throttled
    const lines = await scrape()
    expect(lines).toContain('redrive_timeouts_total{kind="call",category=""} 1')
    expect(lines).toContain('redrive_failures_total{kind="call",category="",code="timeout",decision="give_up"} 1')
    expect(lines).toContain('redrive_failures_total{kind="call",category="LLM",code="rate_limited",decision="defer"} 1')
    expect(lines).toContain('redrive_attempts_total{kind="call",category="LLM",outcome="rate_limited"} 1')
  })

  it('show the state of their breakers and bulkheads', async () => {
    const breaker = new CircuitBreaker('payments', { consecutiveFailures: 1 })
    const reports = bulkhead('metrics-test', { concurrency: 1, queue: 5 })
    const mine = new Registry()
    const sink = await workMetrics({ registry: mine, breakers: [breaker], bulkheads: [reports] })
    let free = () => {}
    const first = reports.run(
      () =>
        new Promise<void>(resolve => {
          free = resolve
        }),
    )
    const second = reports.run(() => {})
    await retry(() => Promise.reject(status(500)), { attempts: 1 }, { breaker, sink }).catch(() => {})
    const text = await mine.metrics()
    expect(text).toContain('redrive_breaker_state{breaker="payments",state="open"} 1')
    expect(text).toContain('redrive_breaker_state{breaker="payments",state="closed"} 0')
    expect(text).toContain('redrive_breaker_opened_total{breaker="payments"} 1')
    expect(text).toContain('redrive_bulkhead_running{bulkhead="metrics-test"} 1')
    expect(text).toContain('redrive_bulkhead_waiting{bulkhead="metrics-test"} 1')
    breaker.close()
    free()
    await Promise.all([first, second])
    const after = await mine.metrics()
    expect(after).toContain('redrive_breaker_state{breaker="payments",state="open"} 0')
    expect(after).toContain('redrive_breaker_opened_total{breaker="payments"} 1')
    expect(after).toContain('redrive_bulkhead_running{bulkhead="metrics-test"} 0')
  })

  it('tell how many work events other sinks failed to take', async () => {
    const broken: Sink = () => Promise.reject(new Error('The log server is down'))
    const mine = new Registry()
    const sink = await workMetrics({ registry: mine, sinks: { logs: broken } })
    await retry(() => 'done', {}, { sink: fanOut(sink, broken) })
    await new Promise(setImmediate)
    expect(await mine.metrics()).toContain('redrive_sink_errors_total{sink="logs"} 2')
    expect(await mine.metrics()).toContain('redrive_sink_errors_total{sink="logs"} 2')
  })
})

describe('tasks', () => {
  const policy = { attempts: 2, backoff: { base: '1s' }, jitter: 'none' } as const
  const task = defineTask('send-email', {
    policy,
    handler: (code: number) => {
      if (code !== 200) throw code === 0 ? new FinalError('no such address') : status(code)
    },
  })

  it('are counted by kind and category, with dead letters by reason', async () => {
    const store = new MemoryStore({ clock })
    const queue = new TaskQueue(store)
    for (const code of [200, 0, 503]) await queue.enqueue(task, code, { category: 'news', key: `tenant-${code}` })
    const worker = new Worker(store, { tasks: [task], sink, clock })
    await worker.start()
    await expect.poll(async () => (await store.count({})).running).toBe(0)
    await clock.advance('2s')
    await expect.poll(async () => (await store.count({})).dead).toBe(2)
    await worker.stop()
    expect(await scrape()).toEqual([
      'redrive_attempts_total{kind="send-email",category="news",outcome="succeeded"} 1',
      'redrive_attempts_total{kind="send-email",category="news",outcome="failed"} 3',
      'redrive_failures_total{kind="send-email",category="news",code="other",decision="give_up"} 1',
      'redrive_failures_total{kind="send-email",category="news",code="http_5xx",decision="retry"} 1',
      'redrive_failures_total{kind="send-email",category="news",code="http_5xx",decision="give_up"} 1',
      'redrive_dead_letters_total{kind="send-email",category="news",reason="attempts_exhausted"} 1',
      'redrive_dead_letters_total{kind="send-email",category="news",reason="final_error"} 1',
      'redrive_attempt_duration_seconds_count{kind="send-email",category="news"} 4',
    ])
    expect(await registry.metrics()).not.toContain('tenant')
  })

  it('whose worker died are counted as lost, and a worker that lost its lease says so once', async () => {
    const store = new MemoryStore({ clock })
    const events: WorkEvent[] = []
    await new TaskQueue(store).enqueue(task, 200)
    const rooms = [{ kinds: ['send-email'] }]
    await store.claim({ worker: 'dead', leaseMs: 1000, rooms, limit: 1, isIdle: true })
    await clock.advance('2s')
    const worker = new Worker(store, {
      tasks: [task],
      clock,
      lease: '30s',
      sink: fanOut(sink, e => void events.push(e)),
    })
    await worker.start()
    await expect.poll(scrape).toContain('redrive_losses_total{kind="send-email",category=""} 1')

    const { heartbeat } = store
    store.heartbeat = () => Promise.reject(status(503))
    await clock.advance('2m')
    store.heartbeat = heartbeat
    await clock.advance('10s')
    expect(events.filter(({ type }) => type === 'lease_lost')).toEqual([
      {
        type: 'lease_lost',
        work: { kind: 'worker', id: worker.name, name: worker.name },
        at: expect.any(Number),
        running: 0,
      },
    ])
    expect(await scrape()).toContain('redrive_lease_losses_total 1')
    await worker.stop()
  })

  it('count the slots of schedules, by how they ended', async () => {
    expect(await registry.metrics()).toContain('redrive_slots_total{end="missed"} 0')
    const work = { kind: 'schedule', id: 'nightly@2027-01-01T00:00:00Z', name: 'nightly' } as const
    sink({ type: 'slot_ended', work, at: 2, slot: 1, end: 'missed', reason: 'nothing fired it in time' })
    expect(await scrape()).toContain('redrive_slots_total{end="missed"} 1')
  })

  it('count handlers that go on although they timed out, until they end or are abandoned', async () => {
    const store = new MemoryStore({ clock })
    const deaf = defineTask('deaf', {
      policy: { attempts: 1, timeout: '5s' },
      handler: (ms: number) => sleep(ms, clock),
    })
    const worker = new Worker(store, { tasks: [deaf], clock, sink })
    await worker.start()
    await new TaskQueue(store).enqueueMany(
      deaf,
      [8000, 60_000].map(payload => ({ payload })),
    )
    const overrunning = async () => (await scrape()).filter(line => /overrunning|abandoned/.test(line))
    await clock.advance('7s')
    expect(await overrunning()).toEqual(['redrive_handlers_overrunning{kind="deaf",category=""} 2'])
    await clock.advance('2s')
    expect(await overrunning()).toEqual(['redrive_handlers_overrunning{kind="deaf",category=""} 1'])
    await clock.advance('1s')
    expect(await overrunning()).toEqual(['redrive_handlers_abandoned_total{kind="deaf",category=""} 1'])
    await worker.stop()
  })

  it('start with their dead letters at 0, so that the first is an increase', async () => {
    const store = new MemoryStore({ clock })
    await new TaskQueue(store).enqueue(task, 200)
    const worker = new Worker(store, { tasks: [task], sink, clock })
    await worker.start()
    await expect
      .poll(() => registry.metrics())
      .toContain('redrive_dead_letters_total{kind="send-email",category="",reason="final_error"} 0')
    await worker.stop()
  })
})

it('events of a queue have the label of their tasks, from the first attempt on', async () => {
  const bus = new MemoryBus()
  await bus.declare({ parsing: 'archive.ingested' })
  const store = new MemoryStore()
  let calls = 0
  const handler = () => {
    if (++calls === 1) throw new RetryableError('not yet')
  }
  const options = { service: 'ingest', store, key: () => 'k1', policy: { backoff: 'none' }, sink, handler } as const
  const consumer = await consume(bus, 'parsing', options)
  await bus.publish({ type: 'archive.ingested', id: 'm1', body: '{}' })
  const attempts = (outcome: string) =>
    `redrive_attempts_total{kind="event:parsing",category="",outcome="${outcome}"} 1`
  await expect.poll(() => scrape()).toContain(attempts('succeeded'))
  expect(await scrape()).toContain(attempts('failed'))
  expect((await store.stats()).kinds).toMatchObject([{ kind: 'event:parsing' }])
  await consumer.stop()
})

it('events that no queue is known of are counted by service', async () => {
  const options = { service: 'chunking', key: 'chunking-m1', sink }
  await handleEvent(() => Promise.reject(new FinalError('bad')), {}, options).catch(() => {})
  const lines = await scrape()
  expect(lines).toContain('redrive_dead_letters_total{kind="event:chunking",category="",reason="final_error"} 1')
  expect(lines).toContain('redrive_attempts_total{kind="event:chunking",category="",outcome="failed"} 1')
  expect(lines.join()).not.toContain('m1')
})

it('items of pipelines are counted by pipeline and stage, and not by run', async () => {
  const enrich = pipeline(
    'enrich',
    stage('fetch', (n: number) => n),
    stage('call', async (n: number) => {
      if (n === 2) throw new FinalError('bad')
      return n
    }),
  )
  await enrich.run([1, 2, 3], { store: new MemoryStore(), sink, id: 'run-1' })
  const lines = await scrape()
  expect(lines).toContain('redrive_attempts_total{kind="pipeline:enrich",category="fetch",outcome="succeeded"} 3')
  expect(lines).toContain('redrive_attempts_total{kind="pipeline:enrich",category="call",outcome="succeeded"} 2')
  expect(lines).toContain('redrive_dead_letters_total{kind="pipeline:enrich",category="call",reason="final_error"} 1')
  expect(lines.join()).not.toContain('run-1')
})

it('kinds and categories beyond a number share one label set', async () => {
  for (let n = 0; n < 250; n++) await retry(() => 'done', {}, { sink, category: `C${n}` })
  const attempts = (await scrape()).filter(line => line.startsWith('redrive_attempts_total'))
  expect(attempts.length).toBe(201)
  expect(attempts).toContain('redrive_attempts_total{kind="other",category="other",outcome="succeeded"} 50')
})

it('promtool finds nothing wrong with any of them', async () => {
  const mine = new Registry()
  const sink = await workMetrics({
    registry: mine,
    breakers: [new CircuitBreaker('payments')],
    bulkheads: [bulkhead('promtool-test', { concurrency: 1 })],
    sinks: { logs: () => {} },
  })
  const store = new MemoryStore()
  await storeMetrics(store, { registry: mine })
  await store.enqueue([{ kind: 'send-email', payload: '{}' }])
  await retry(() => 'done', {}, { sink })
  const program = await findProgram({ title: 'Prometheus', file: 'promtool', places: [], debianPackage: 'prometheus' })
  const promtool = promisify(execFile)(program, ['check', 'metrics'])
  promtool.child.stdin?.end(await mine.metrics())
  expect(await promtool).toMatchObject({ stdout: '', stderr: '' })
}, 300_000)
