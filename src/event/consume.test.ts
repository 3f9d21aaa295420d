import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { checkInvariants } from '../../test/conformance/invariants.js'
import { type Bus, failedQueueOf, MemoryBus, type NewMessage } from '../bus/index.js'
import { IdempotencyGuard } from '../idempotency/index.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { StoreRefusedError, StoreUnavailableError, type TaskStatus } from '../store/index.js'
import { MemoryStore } from '../store/internal.js'
import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { type ConsumeOptions, consume, DocumentNotFoundError, type EventConsumer } from './index.js'

interface Parsed {
  readonly ids: string[]
}

let clock: FakeClock
let bus: Bus
let store: MemoryStore
let consumers: EventConsumer<Parsed>[]
beforeEach(async () => {
  clock = fakeClock()
  bus = new MemoryBus()
  store = new MemoryStore({ clock })
  consumers = []
  await bus.declare({ chunking: 'json.parsed' })
})
afterEach(async () => {
  for (const consumer of consumers) await consumer.stop()
  await checkInvariants(store)
  await bus.close()
})

async function start(handler: ConsumeOptions<Parsed>['handler'], options: Partial<ConsumeOptions<Parsed>> = {}) {
  const key = (event: Parsed) => event.ids
  const consumer = await consume(bus, 'chunking', { service: 'chunking', key, store, clock, handler, ...options })
  consumers.push(consumer)
  return consumer
}

const publish = (id: string, event: unknown = { ids: [id] }, more: Partial<NewMessage> = {}) =>
  bus.publish({ id, type: 'json.parsed', body: JSON.stringify(event), ...more })

async function waiting(): Promise<number | undefined> {
  const [queue] = await bus.status({ chunking: 'json.parsed' })
  return queue?.messages
}

const statusOf = async (id: string): Promise<TaskStatus | undefined> => (await store.get(`chunking/${id}`))?.status

async function failedLetters() {
  const letters: Record<string, unknown>[] = []
  for await (const { body } of bus.browse(failedQueueOf('chunking')))
    letters.push(JSON.parse(new TextDecoder().decode(body)))
  return letters
}

describe('an event from a bus', () => {
  it('that succeeds is acknowledged, and costs the store nothing', async () => {
    const seen: unknown[] = []
    await start((event, { attempt, key }) => seen.push({ event, attempt, key }))
    await publish('m1')
    await expect.poll(() => seen).toEqual([{ event: { ids: ['m1'] }, attempt: 1, key: 'chunking-m1' }])
    await expect.poll(waiting).toBe(0)
    expect(await store.count({})).toMatchObject({ waiting: 0, succeeded: 0 })
  })

  it('has its headers at every attempt, with a guard and without', async () => {
    const seen: unknown[] = []
    const fail = (attempt: number) => {
      if (attempt < 2) throw new DocumentNotFoundError('not yet')
    }
    await start((_, { attempt, headers }) => {
      seen.push([attempt, headers['document-generation']])
      fail(attempt)
    })
    await publish('m1', undefined, { headers: { 'document-generation': '7' } })
    await clock.advance('1m')
    await expect.poll(() => statusOf('m1')).toBe('succeeded')
    await consumers.pop()?.stop()
    await start((_, { attempt, headers }) => seen.push([attempt, headers['document-generation']]), {
      guard: new IdempotencyGuard({ store: store.idempotency, clock }),
    })
    await publish('m2', undefined, { headers: { 'document-generation': '8' } })
    await expect
      .poll(() => seen)
      .toEqual([
        [1, '7'],
        [2, '7'],
        [1, '8'],
      ])
  })

  it('has no steps: its handler fails for good, and is told what to do', async () => {
    for (const guard of [undefined, new IdempotencyGuard({ store: store.idempotency, clock })]) {
      const consumer = await start((_, context) => Reflect.get(context, 'step')('charge', () => 1), { guard })
      const id = guard === undefined ? 'm1' : 'm2'
      await publish(id)
      await expect.poll(() => statusOf(id)).toBe('dead')
      expect(await store.get(`chunking/${id}`)).toMatchObject({
        attempts: 1,
        reason: 'final_error',
        errorCode: 'step_unsupported',
        errorMessage: expect.stringMatching(/The step 'charge' was not run: .* Enqueue a task/),
      })
      await consumer.stop()
    }
  })

  it('that fails waits for its retry as a task in the store, and the queue goes on', async () => {
    const attempts: number[] = []
    await start((_, { attempt }) => {
      attempts.push(attempt)
      if (attempt < 4) throw new DocumentNotFoundError('not yet')
    })
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('waiting')
    expect(await waiting()).toBe(0)
    await clock.advance('1m')
    await expect.poll(() => statusOf('m1')).toBe('succeeded')
    expect(attempts).toEqual([1, 2, 3, 4])
    const outcomes = (await store.ledger('chunking/m1')).map(({ attempt, outcome }) => `${attempt} ${outcome}`)
    expect(outcomes).toEqual(['1 retry', '2 retry', '3 retry', '4 succeeded'])
  })

  it('is given up after its attempts: a dead letter in the store, with its history', async () => {
    await start(() => Promise.reject(new DocumentNotFoundError('never')), { policy: { attempts: 3 } })
    await publish('m1')
    await clock.advance('1m')
    await expect.poll(() => statusOf('m1')).toBe('dead')
    expect(await store.get('chunking/m1')).toMatchObject({
      attempts: 3,
      reason: 'attempts_exhausted',
      errorCode: 'document_not_found',
      kind: 'event:chunking',
    })
    expect(await failedLetters()).toEqual([])
  })

  it('has on record which consumer of which release made each attempt', async () => {
    await start(() => Promise.reject(new DocumentNotFoundError('never')), {
      policy: { attempts: 2 },
      name: 'chunking-1',
      release: '1.2.3',
    })
    await publish('m1')
    await clock.advance('1m')
    await expect.poll(() => statusOf('m1')).toBe('dead')
    const made = (await store.ledger('chunking/m1')).map(({ worker, release }) => `${worker} ${release}`)
    expect(made).toEqual(['chunking-1 1.2.3', 'chunking-1 1.2.3'])
  })

  it('whose failure is not to be retried is a dead letter at once', async () => {
    await start(() => {
      throw new FinalError('no such archive')
    })
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('dead')
    expect(await waiting()).toBe(0)
  })

  it('has its dead letter in the failed queue, and only there, if that is its home', async () => {
    await start(
      ({ ids }) => Promise.reject(ids[0] === 'm1' ? new FinalError('bad') : new DocumentNotFoundError('never')),
      {
        deadLetters: 'failed-queue',
        policy: { attempts: 2 },
      },
    )
    await publish('m1')
    await publish('m2')
    await clock.advance('1m')
    await expect.poll(async () => (await failedLetters()).length).toBe(2)
    const letters = (await failedLetters()).sort((a, b) => Number(a.attempt_count) - Number(b.attempt_count))
    expect(letters).toMatchObject([
      {
        original_event: { ids: ['m1'] },
        idempotency_key: 'chunking-m1',
        attempt_count: 1,
        last_error: 'FinalError: bad',
        error_type: 'FinalError',
        abandoned_reason: 'non_retryable_error',
        service_name: 'chunking',
      },
      { idempotency_key: 'chunking-m2', attempt_count: 2, abandoned_reason: 'max_attempts_exceeded' },
    ])
    await expect.poll(async () => (await store.count({})).dead).toBe(0)
    await expect.poll(() => statusOf('m1')).toBe('skipped')
    await expect.poll(() => statusOf('m2')).toBe('skipped')
  })

  it('that asks to wait is deferred at no cost of an attempt, if its policy has deferrals', async () => {
    let calls = 0
    await start(
      () => {
        if (++calls === 1) throw new RateLimitedError('slow down', { retryAfterMs: 120_000 })
      },
      { policy: { deferrals: 1, retryOn: 'all' } },
    )
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('waiting')
    expect(await store.get('chunking/m1')).toMatchObject({ attempts: 0, deferrals: 1 })
    await clock.advance('2m')
    await expect.poll(() => statusOf('m1')).toBe('succeeded')
  })

  it('that is no JSON is a dead letter with what came instead', async () => {
    await start(() => {})
    await bus.publish({ id: 'm1', type: 'json.parsed', body: '{"ids": [' })
    await expect.poll(() => statusOf('m1')).toBe('dead')
    expect(JSON.parse((await store.get('chunking/m1'))?.payload ?? '')).toMatchObject({ raw_body: '{"ids": [' })
  })

  it('without ids to make a key of is a dead letter', async () => {
    await start(() => {})
    await publish('m1', { ids: [] })
    await expect.poll(() => statusOf('m1')).toBe('dead')
  })
})

describe('an event that is delivered again', () => {
  it('goes to the store before it runs, and is counted there', async () => {
    // A consumer that dies with the delivery in hand.
    const first = await bus.consume('chunking', () => new Promise<void>(() => {}))
    await publish('m1')
    const attempts: number[] = []
    void first
    await bus.close()
    bus = new MemoryBus()
    await bus.declare({ chunking: 'json.parsed' })
    let given = false
    const giver = await bus.consume('chunking', delivery => {
      if (!given) delivery.giveBack()
      given = true
      return new Promise<void>(() => {})
    })
    void giver
    await start((_, { attempt }) => attempts.push(attempt))
    await publish('m2')
    await expect.poll(() => statusOf('m2')).toBe('succeeded')
    expect(attempts).toEqual([1])
  })

  it('finds its task there, and changes nothing', async () => {
    let calls = 0
    await start(() => {
      calls++
      throw new DocumentNotFoundError('not yet')
    })
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('waiting')
    await publish('m1')
    await expect.poll(waiting).toBe(0)
    await expect.poll(() => calls).toBe(2)
    expect(await store.ledger('chunking/m1')).toHaveLength(1)
  })

  it('takes effect once under a guard', async () => {
    const guard = new IdempotencyGuard({ store: store.idempotency, clock })
    const effects: string[] = []
    await start(({ ids }) => effects.push(...ids), { guard })
    await publish('m1')
    await publish('m1')
    await publish('m2', { ids: ['m1'] })
    await publish('m3')
    await expect.poll(waiting).toBe(0)
    await expect.poll(() => effects).toEqual(['m1', 'm3'])
  })
})

describe('a dead letter that is redriven', () => {
  it('is handled again by its consumer', async () => {
    let isDown = true
    await start(() => {
      if (isDown) throw new FinalError('down')
    })
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('dead')
    isDown = false
    await clock.advance(1)
    expect(await store.redrive(['chunking/m1'], { who: 'ada' })).toEqual(['chunking/m1'])
    await expect.poll(() => statusOf('m1')).toBe('succeeded')
  })

  it('is published again if that is configured, and then is an event like any other', async () => {
    let isDown = true
    const seen: number[] = []
    await start(
      (_, { attempt }) => {
        seen.push(attempt)
        if (isDown) throw new FinalError('down')
      },
      { redrive: 'publish' },
    )
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('dead')
    isDown = false
    await clock.advance(1)
    await store.redrive(['chunking/m1'], { who: 'ada' })
    await expect.poll(() => statusOf('m1')).toBe('skipped')
    await expect.poll(() => seen).toEqual([1, 1])
  })
})

describe('a consumer', () => {
  it('that stops gives back what it cannot end, and another handles it', async () => {
    const consumer = await start(
      (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', reject)),
      {
        grace: '1s',
      },
    )
    await publish('m1')
    await expect.poll(waiting).toBe(0)
    const stopped = consumer.stop()
    await clock.advance('1s')
    await stopped
    const seen: unknown[] = []
    await start(event => seen.push(event))
    await expect.poll(() => seen).toEqual([{ ids: ['m1'] }])
  })

  it('says once that its store does not answer, keeps what failed in hand, and says when it does again', async () => {
    const told: unknown[] = []
    const away = new StoreUnavailableError('the store', 'ECONNREFUSED', { wasSent: false })
    const enqueue = store.enqueue.bind(store)
    let failures = 3
    store.enqueue = tasks => (failures-- > 0 ? Promise.reject(away) : enqueue(tasks))
    await start(
      () => {
        throw new FinalError('no use')
      },
      { onOutage: outage => told.push(outage) },
    )
    await publish('m1')
    await expect.poll(() => told).toEqual([{ isOver: false, failure: away }])
    expect(await statusOf('m1')).toBeUndefined()
    await clock.advance('1m')
    await expect.poll(() => statusOf('m1')).toBe('dead')
    await expect.poll(waiting).toBe(0)
    expect(told).toEqual([{ isOver: false, failure: away }, { isOver: true }])
  })

  it('whose store refuses for good gives back what it has, stops, and says why', async () => {
    const cannot = new FinalError('refused for good')
    let attempts = 0
    const enqueue = store.enqueue.bind(store)
    store.enqueue = () => Promise.reject(cannot)
    const consumer = await start(() => {
      attempts++
      throw new FinalError('no use')
    })
    const stopped = expect(consumer.stopped).rejects.toBe(cannot)
    await publish('m1')
    await stopped
    expect(attempts).toBe(1)
    expect(await waiting()).toBe(1)
    expect(clock.timers).toBe(0)
    store.enqueue = enqueue
    await start(() => {})
    await expect.poll(() => statusOf('m1')).toBe('succeeded')
  })

  describe('whose store can never take one event', () => {
    const tooLarge = new StoreRefusedError('the store', 'the string is too long')
    beforeEach(() => {
      const enqueue = store.enqueue.bind(store)
      store.enqueue = tasks =>
        tasks.some(({ id }) => id === 'chunking/m1') ? Promise.reject(tooLarge) : enqueue(tasks)
    })
    const fail = () => {
      throw new DocumentNotFoundError('not yet')
    }

    it('gives that event up, in the failed queue, and goes on', async () => {
      await start(fail)
      await publish('m1')
      await publish('m2')
      await expect.poll(() => statusOf('m2')).toBe('waiting')
      await expect.poll(failedLetters).toMatchObject([
        {
          original_event: { ids: ['m1'] },
          dead_letter_id: 'chunking/m1',
          attempt_count: 1,
          abandoned_reason: 'non_retryable_error',
          last_error: expect.stringContaining('the string is too long'),
        },
      ])
      expect(await waiting()).toBe(0)
    })

    it('gives it up without another attempt if it was delivered before', async () => {
      const give = bus.consume.bind(bus)
      bus.consume = (queue, handle, options) =>
        give(queue, delivery => handle(Object.assign(delivery, { isRedelivered: true })), options)
      const seen: unknown[] = []
      await start(event => seen.push(event))
      await publish('m1')
      await expect.poll(failedLetters).toMatchObject([{ dead_letter_id: 'chunking/m1', attempt_count: 0 }])
      expect(seen).toEqual([])
      expect(await waiting()).toBe(0)
    })

    it('keeps it for a while, and gives it back, if the failed queue can never take it either', async () => {
      const warnings: unknown[] = []
      const warned = (warning: Error) => warnings.push(warning)
      process.on('warning', warned)
      onTestFinished(() => void process.off('warning', warned))
      bus.put = () => Promise.reject(new FinalError('larger than max_payload'))
      const consumer = await start(fail)
      await publish('m1')
      const warning = {
        code: 'event_refused',
        message: expect.stringContaining("The event 'chunking/m1' can be kept nowhere"),
        detail: expect.stringContaining('larger than max_payload'),
      }
      await expect.poll(() => warnings).toMatchObject([warning])
      expect(await failedLetters()).toEqual([])
      await publish('m2')
      await expect.poll(() => statusOf('m2')).toBe('waiting')
      expect(await waiting()).toBe(0)
      await clock.advance('1m')
      await expect.poll(() => warnings).toMatchObject([warning, warning])
      await consumer.stop()
      expect(await waiting()).toBe(1)
    })
  })

  it('whose store refuses for good while it starts takes nothing, and says why', async () => {
    const cannot = new FinalError('refused for good')
    store.claim = () => Promise.reject(cannot)
    const take = bus.consume.bind(bus)
    bus.consume = async (...args) => {
      await clock.advance('1s')
      return take(...args)
    }
    const seen: unknown[] = []
    await expect(start(event => seen.push(event))).rejects.toBe(cannot)
    await publish('m1')
    await clock.advance('1m')
    expect(seen).toEqual([])
    expect(await waiting()).toBe(1)
    expect(clock.timers).toBe(0)
  })

  it('that stops gives back a dead letter that the bus does not take', async () => {
    const put = bus.put.bind(bus)
    bus.put = () => Promise.reject(new Error('the broker is away'))
    const policy = { attempts: 2, backoff: { base: '1s' }, jitter: 'none' } as const
    const fail = () => {
      throw new DocumentNotFoundError('never')
    }
    const consumer = await start(fail, { deadLetters: 'failed-queue', policy })
    await publish('m1')
    await expect.poll(() => statusOf('m1')).toBe('waiting')
    await clock.advance('10s')
    expect(await statusOf('m1')).toBe('running')
    const stopping = consumer.stop()
    await clock.advance('1m')
    await stopping
    expect(await statusOf('m1')).toBe('waiting')
    expect(clock.timers).toBe(0)

    bus.put = put
    await start(fail, { deadLetters: 'failed-queue', policy })
    await clock.advance('1m')
    await expect.poll(() => statusOf('m1')).toBe('skipped')
    expect(await failedLetters()).toHaveLength(1)
  })

  it('of a queue that is not there leaves no worker behind', async () => {
    await expect(
      consume(bus, 'nowhere', { service: 'chunking', key: () => ['1'], store, clock, handler: () => {} }),
    ).rejects.toThrow("There is no queue 'nowhere'")
    expect(clock.timers).toBe(0)
  })

  it('tells its sink of events, by the name of its service', async () => {
    const events: WorkEvent[] = []
    await start(
      (_, { attempt }) => {
        if (attempt === 1) throw new DocumentNotFoundError('not yet')
      },
      { sink: event => events.push(event) },
    )
    await publish('m1')
    await clock.advance('1m')
    await expect
      .poll(() => events.map(({ type, work }) => `${work.kind} ${work.name} ${type}`))
      .toEqual([
        'event chunking attempt_started',
        'event chunking retry_scheduled',
        'event chunking attempt_started',
        'event chunking attempt_succeeded',
      ])
  })

  it('that stops leaves no timer behind, which would keep its process alive', async () => {
    const consumer = await start(() => {})
    await consumer.stop()
    expect(clock.timers).toBe(0)
  })
})
