import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { managerOnFakeClock } from '../../test/manager-on-fake-clock.js'
import {
  IdempotencyGuard,
  IdempotencyInProgressError,
  IdempotencyKeyError,
  IdempotencyLeaseLostError,
  IdempotencyMismatchError,
  MemoryIdempotencyStore,
} from '../idempotency/index.js'
import { OptionError, PolicyError } from '../policy/index.js'
import { fakeClock } from '../testing/index.js'
import { type Attempt, RetryExhaustedError, RetryManager, type RetryManagerOptions } from './index.js'

const down = () => Promise.reject(new Error('down'))
const never = () => new Promise<never>(() => {})

let warned = vi.spyOn(process, 'emitWarning')
beforeEach(() => {
  warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
})
afterEach(() => {
  vi.restoreAllMocks()
})

const CATEGORIES = {
  API_REQUEST: { attempts: 3, timeout: '30s' },
  KV_GET: { attempts: 3 },
  KV_PUT: { attempts: 3 },
  NATS_CONNECT: { attempts: 5 },
  REPLAY_PROCESSING: { attempts: 1 },
} as const

const setUp = (options: RetryManagerOptions = {}) => managerOnFakeClock({ categories: CATEGORIES, ...options })

describe('a category named by its code', () => {
  it('is the category', async () => {
    const { manager, settled, audit } = setUp()
    expect(manager.policyOf('RETRY_NATS_CONNECT')).toBe(manager.policyOf('NATS_CONNECT'))
    const fn = vi.fn(down)
    await settled(manager.execute('RETRY_NATS_CONNECT', 'connect', fn))
    expect(fn).toHaveBeenCalledTimes(5)
    expect(new Set(audit.records.map(record => 'retry_category' in record && record.retry_category))).toEqual(
      new Set(['RETRY_NATS_CONNECT']),
    )
    expect(warned).not.toHaveBeenCalled()
  })

  it('can be registered so', () => {
    const { manager } = setUp()
    manager.register('RETRY_PAYMENT', { attempts: 7 })
    expect(manager.policyOf('PAYMENT').attempts).toBe(7)
  })
})

describe('a wrong option', () => {
  it('of the manager is refused', () => {
    expect(() => setUp({ catgories: {} } as object)).toThrow(
      "A retry manager takes no 'catgories'. Did you mean 'categories'?",
    )
    expect(() => setUp({ sink: [] as never })).toThrow("'sink' must be of type function; got a list.")
  })

  it('of a call is refused, and the function is not called', async () => {
    const { manager } = setUp()
    const fn = vi.fn(() => 'result')
    const wrong = { idempotncyKey: 'k' } as object
    await expect(manager.execute('KV_GET', 'load', fn, wrong)).rejects.toThrow("Did you mean 'idempotencyKey'?")
    await expect(manager.execute('KV_GET', 'load', fn, { sink: fn } as object)).rejects.toThrow(
      "execute() takes no 'sink'",
    )
    expect(fn).not.toHaveBeenCalled()
  })
})

describe('an unknown category', () => {
  it('gets three attempts, from 1 s to 30 s, and 30 s for each', async () => {
    const { manager, settled, delays } = setUp()
    const fn = vi.fn(down)
    await settled(manager.execute('MINE', 'operation', fn))
    expect(fn).toHaveBeenCalledTimes(3)
    expect(delays()).toEqual([1000, 2000])
    expect(await settled(manager.execute('MINE', 'operation', never))).toMatchObject({
      reason: { cause: { code: 'TIMEOUT_MINE', timeoutMs: 30_000 } },
    })
    await settled(manager.execute('MINE', 'operation', down, { policy: { attempts: 8 } }))
    expect(Math.max(...delays())).toBe(30_000)
  })

  it('is warned of, once, by name', async () => {
    const { manager } = setUp()
    for (let i = 0; i < 3; i++) await manager.execute('MINE', 'operation', () => 'result')
    await manager.execute('YOURS', 'operation', () => 'result')
    expect(warned.mock.calls.map(([message]) => String(message))).toEqual([
      expect.stringContaining(`'MINE'`),
      expect.stringContaining(`'YOURS'`),
    ])
  })

  it('is every one that was not given: a manager knows none by itself', () => {
    const manager = new RetryManager()
    expect(manager.policyOf('NATS_CONNECT')).toEqual(manager.policyOf('MINE'))
    expect(warned).toHaveBeenCalledTimes(2)
  })

  it('is not found among the properties that every object has', async () => {
    const { manager, settled } = setUp()
    const fn = vi.fn(down)
    await settled(manager.execute('constructor', 'operation', fn))
    expect(fn).toHaveBeenCalledTimes(3)
  })
})

describe('a category that was registered', () => {
  it('has the policy that it was given, without a warning', async () => {
    const { manager, settled, delays } = setUp()
    manager.register('MINE', { attempts: 4, backoff: { kind: 'fixed', base: '7s' }, timeout: '2s' })
    await settled(manager.execute('MINE', 'operation', down))
    expect(delays()).toEqual([7000, 7000, 7000])
    expect(await settled(manager.execute('MINE', 'operation', never))).toMatchObject({
      reason: { cause: { code: 'TIMEOUT_MINE', timeoutMs: 2000 } },
    })
    expect(warned).not.toHaveBeenCalled()
  })

  it('has what it does not say from the default', async () => {
    const { manager, settled, delays } = setUp()
    manager.register('MINE', { attempts: 2 })
    await settled(manager.execute('MINE', 'operation', down))
    expect(delays()).toEqual([1000])
  })

  it('may replace one that the manager was made with, for that manager alone', async () => {
    const [mine, other] = [setUp(), setUp()]
    mine.manager.register('KV_GET', { attempts: 7 })
    const [fn, otherFn] = [vi.fn(down), vi.fn(down)]
    await mine.settled(mine.manager.execute('KV_GET', 'operation', fn))
    await other.settled(other.manager.execute('KV_GET', 'operation', otherFn))
    expect(fn).toHaveBeenCalledTimes(7)
    expect(otherFn).toHaveBeenCalledTimes(3)
  })

  it.each([['mine'], ['MY-OWN'], [''], ['1ST'], ['A B']])('cannot be named %j', name => {
    const { manager } = setUp()
    expect(() => manager.register(name, {})).toThrow(OptionError)
    expect(() => manager.register(name, {})).toThrow(`'${name}'`)
  })

  it('cannot have an invalid policy', () => {
    const { manager } = setUp()
    expect(() => manager.register('MINE', { attempts: 0 })).toThrow(PolicyError)
  })

  it('may be given when the manager is made, under the same rules', async () => {
    const { manager, settled, delays } = setUp({ categories: { MINE: { attempts: 4, backoff: { base: '2s' } } } })
    await settled(manager.execute('MINE', 'operation', down))
    expect(delays()).toEqual([2000, 4000, 8000])
    expect(warned).not.toHaveBeenCalled()
    expect(() => new RetryManager({ categories: { mine: {} } })).toThrow(OptionError)
    expect(() => new RetryManager({ categories: { MINE: { attempts: 0 } } })).toThrow(PolicyError)
  })
})

describe('the policy of one call', () => {
  it('is laid over the one of its category, field by field', async () => {
    const { manager, settled, delays } = setUp()
    const policy = { attempts: 4, backoff: { max: '3s' } } as const
    await settled(manager.execute('API_REQUEST', 'operation', down, { policy }))
    expect(delays()).toEqual([1000, 2000, 3000])
    expect(await settled(manager.execute('API_REQUEST', 'operation', never, { policy }))).toMatchObject({
      reason: { cause: { timeoutMs: 30_000 } },
    })
  })

  it('does not change the category', async () => {
    const { manager, settled } = setUp()
    await settled(manager.execute('API_REQUEST', 'operation', down, { policy: { attempts: 9 } }))
    const fn = vi.fn(down)
    await settled(manager.execute('API_REQUEST', 'operation', fn))
    expect(fn).toHaveBeenCalledTimes(3)
  })

  it('that cannot be rejects, and the function is not called', async () => {
    const { manager } = setUp()
    const fn = vi.fn(() => 'result')
    const call = manager.execute('API_REQUEST', 'operation', fn, { policy: { attempts: -1 } })
    await expect(call).rejects.toThrow(PolicyError)
    expect(fn).not.toHaveBeenCalled()
  })
})

describe('the audit of a managed call', () => {
  const types = (records: readonly { event_type: string }[]) => records.map(({ event_type }) => event_type)

  it('that succeeds at once is empty', async () => {
    const { manager, audit } = setUp()
    await manager.execute('API_REQUEST', 'operation', () => 'result')
    expect(audit.records).toEqual([])
  })

  it('with N failures and N attempts has N - 1 retries and one exhaustion', async () => {
    const { manager, settled, audit } = setUp()
    await settled(manager.execute('NATS_CONNECT', 'connect', down))
    expect(types(audit.records)).toEqual([
      'retry_attempt',
      'retry_attempt',
      'retry_attempt',
      'retry_attempt',
      'retry_exhausted',
    ])
    expect(audit.records.map(record => 'attempt_number' in record && record.attempt_number)).toEqual([
      1,
      2,
      3,
      4,
      false,
    ])
  })

  it('with one attempt has one exhaustion', async () => {
    const { manager, settled, audit } = setUp()
    await settled(manager.execute('REPLAY_PROCESSING', 'replay', down))
    expect(types(audit.records)).toEqual(['retry_exhausted'])
  })

  it('that fails for good has no retry', async () => {
    const { manager, settled, audit } = setUp()
    const call = manager.execute('API_REQUEST', 'operation', () => Promise.reject({ status: 404 }), {
      policy: { giveUpOn: [404] },
    })
    expect(await settled(call)).toMatchObject({ reason: { status: 404 } })
    expect(audit.records).toEqual([])
  })

  it('says whose call it was', async () => {
    const { manager, settled, audit } = setUp()
    const call = manager.execute('API_REQUEST', 'charge card', down, {
      tenantId: 'acme',
      correlationId: 'c-1',
      traceId: 't-1',
      context: { order: 42 },
    })
    await settled(call)
    for (const record of audit.records) {
      expect(record).toMatchObject({
        operation: 'charge card',
        tenant_id: 'acme',
        correlation_id: 'c-1',
        trace_id: 't-1',
        additional_context: { order: 42 },
      })
    }
  })

  it('that fails to be written changes nothing for the caller', async () => {
    const sink = () => {
      throw new Error('disk full')
    }
    const { manager, settled } = setUp({ sink })
    const fn = vi.fn(({ attempt }: Attempt) => (attempt < 3 ? down() : 'result'))
    expect(await settled(manager.execute('API_REQUEST', 'operation', fn))).toMatchObject({ value: 'result' })
  })
})

describe('a managed call', () => {
  it('needs no options at all', async () => {
    await expect(new RetryManager().execute('API_REQUEST', 'operation', () => 'result')).resolves.toBe('result')
  })

  it('can be aborted', async () => {
    const { manager } = setUp()
    const controller = new AbortController()
    const call = manager.execute('API_REQUEST', 'operation', never, { signal: controller.signal })
    controller.abort('enough')
    await expect(call).rejects.toBe('enough')
  })

  it('has jitter from its id, unless the manager has a source of its own', async () => {
    const delaysOf = async (id: string) => {
      const { manager, settled, delays } = setUp({ random: undefined })
      await settled(manager.execute('NATS_CONNECT', 'connect', down, { id }))
      return delays()
    }
    expect(await delaysOf('a')).toEqual(await delaysOf('a'))
    expect(await delaysOf('a')).not.toEqual(await delaysOf('b'))
  })
})

describe('an idempotency key', () => {
  it.each([[undefined], [null], [false], [0], [''], ['text'], [{ receipt: 7 }]])(
    'whose result is %j runs once, and gives that result to whoever comes again',
    async result => {
      const { manager, audit } = setUp()
      const fn = vi.fn(async () => result)
      for (let i = 0; i < 3; i++) {
        await expect(manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'k' })).resolves.toEqual(result)
      }
      expect(fn).toHaveBeenCalledTimes(1)
      expect(audit.records.map(record => 'action' in record && record.action)).toEqual(['record', 'hit', 'hit'])
      for (const record of audit.records) expect(record).toMatchObject({ idempotency_key: 'k', operation: 'charge' })
    },
  )

  it('runs once for concurrent callers, and all get the result', async () => {
    const { manager, settled } = setUp()
    let calls = 0
    const fn = async () => {
      calls++
      for (let i = 0; i < 5; i++) await new Promise(resolve => setImmediate(resolve))
      return { receipt: calls }
    }
    const execute = () => manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'k' })
    const results = await settled(Promise.all([execute(), execute(), execute(), execute()]))
    expect(results).toMatchObject({ value: [{ receipt: 1 }, { receipt: 1 }, { receipt: 1 }, { receipt: 1 }] })
    expect(calls).toBe(1)
  })

  it('is retried within, as its category says, before its result is stored', async () => {
    const { manager, settled, audit } = setUp()
    const fn = vi.fn(({ attempt }: Attempt) => (attempt < 3 ? down() : 'result'))
    const call = manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'k' })
    expect(await settled(call)).toMatchObject({ value: 'result' })
    expect(audit.records.map(({ event_type }) => event_type)).toEqual(['retry_attempt', 'retry_attempt', 'idempotency'])
  })

  it('whose call fails is not stored: the next caller runs', async () => {
    const { manager, settled } = setUp()
    const fn = vi.fn(down)
    const execute = (fn: () => unknown) => manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'k' })
    const failed = await settled(execute(fn))
    expect(failed).toMatchObject({ reason: expect.any(RetryExhaustedError) })
    expect(fn).toHaveBeenCalledTimes(3)
    expect(await settled(execute(() => 'result'))).toMatchObject({ value: 'result' })
  })

  it('with other parameters is an error that names the key, and does not run', async () => {
    const { manager } = setUp()
    const fn = vi.fn(() => 'result')
    const execute = (cents: number) =>
      manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'order-42', params: { cents, to: 'x' } })
    await execute(100)
    await execute(100)
    await expect(execute(999)).rejects.toThrow(IdempotencyMismatchError)
    await expect(execute(999)).rejects.toThrow('order-42')
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it.each([
    ['of more than 255 characters', 'x'.repeat(256)],
    ['that is empty', ''],
    ['that is not text', 42 as unknown as string],
  ])('%s is an error of its own class, and does not run', async (_, idempotencyKey) => {
    const { manager } = setUp()
    const fn = vi.fn(() => 'result')
    const call = manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey })
    await expect(call).rejects.toThrow(IdempotencyKeyError)
    expect(fn).not.toHaveBeenCalled()
  })

  it('of 255 characters is fine', async () => {
    const { manager } = setUp()
    const call = manager.execute('API_REQUEST', 'charge', () => 'result', { idempotencyKey: 'x'.repeat(255) })
    await expect(call).resolves.toBe('result')
  })

  it('can be aborted, and the function sees it', async () => {
    const { manager, clock } = setUp()
    const controller = new AbortController()
    let signal: AbortSignal | undefined
    const fn = (attempt: Attempt) => {
      signal = attempt.signal
      return new Promise((_, reject) => attempt.signal.addEventListener('abort', () => reject(attempt.signal.reason)))
    }
    const call = manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'k', signal: controller.signal })
    const rejected = expect(call).rejects.toBe('enough')
    await clock.advance(1)
    controller.abort('enough')
    await rejected
    expect(signal?.reason).toBe('enough')
    await clock.advance(1)
    expect(clock.timers).toBe(0)
  })

  it('that is aborted is settled once its function has ended, and nobody runs beside it', async () => {
    const { manager, clock, events } = setUp()
    const controller = new AbortController()
    let end = (_result: string) => {}
    const fn = vi.fn(() => new Promise<string>(resolve => (end = resolve)))
    const aborted = manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'k', signal: controller.signal })
    const rejected = expect(aborted).rejects.toBe('enough')
    await clock.advance(1)
    controller.abort('enough')
    await rejected

    const next = manager.execute('API_REQUEST', 'charge', fn, { idempotencyKey: 'k' })
    // Longer than its attempt may take, and than a lease.
    await clock.advance('5m')
    expect(fn).toHaveBeenCalledTimes(1)
    end('charged')
    await clock.advance('1s')
    await expect(next).resolves.toBe('charged')
    expect(fn).toHaveBeenCalledTimes(1)
    expect(events.map(({ type }) => type)).toEqual([
      'attempt_started',
      'attempt_succeeded',
      'idempotency_recorded',
      'idempotency_hit',
    ])
    expect(clock.timers).toBe(0)
  })

  it('that is aborted is released once its function has failed, or at once while it waits for a retry', async () => {
    const { manager, clock } = setUp()
    for (const isWaiting of [false, true]) {
      const controller = new AbortController()
      let fail = () => {}
      const fn = vi.fn(() => new Promise<string>((_, reject) => (fail = () => reject(new Error('down')))))
      const options = { idempotencyKey: `k-${isWaiting}`, signal: controller.signal }
      const aborted = manager.execute('API_REQUEST', 'charge', fn, options).catch(() => 'aborted')
      await clock.advance(1)
      if (isWaiting) {
        fail()
        await clock.advance(1)
      }
      controller.abort('enough')
      expect(await aborted).toBe('aborted')
      if (!isWaiting) fail()
      await clock.advance(1)
      const { idempotencyKey } = options
      const next = manager.execute('API_REQUEST', 'charge', () => 'charged', { idempotencyKey })
      await expect(next).resolves.toBe('charged')
      expect(fn).toHaveBeenCalledTimes(1)
    }
    expect(clock.timers).toBe(0)
  })

  it('that another has taken over aborts the function', async () => {
    const clock = fakeClock()
    const idempotency = new IdempotencyGuard({ store: new MemoryIdempotencyStore({ clock }), clock, lease: '9s' })
    const { manager } = setUp({ clock, idempotency })
    const signals: AbortSignal[] = []
    const fn = ({ signal }: Attempt) => {
      signals.push(signal)
      return never()
    }
    manager.execute('REPLAY_PROCESSING', 'replay', fn, { idempotencyKey: 'k' }).catch(() => {})
    await clock.advance(1)
    await idempotency.clear('k')
    await clock.advance('9s')
    expect(signals).toHaveLength(1)
    expect(signals[0]?.reason).toBeInstanceOf(IdempotencyLeaseLostError)
  })

  it('lives in the guard that the manager was given, so that managers can share it', async () => {
    const clock = fakeClock()
    const idempotency = new IdempotencyGuard({ store: new MemoryIdempotencyStore({ clock }), clock })
    const managers = [setUp({ clock, idempotency }), setUp({ clock, idempotency })]
    const fn = vi.fn(() => 'result')
    for (const { manager } of managers) await manager.execute('KV_PUT', 'put', fn, { idempotencyKey: 'k' })
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('of one manager is not one of another', async () => {
    const fn = vi.fn(() => 'result')
    for (const { manager } of [setUp(), setUp()]) await manager.execute('KV_PUT', 'put', fn, { idempotencyKey: 'k' })
    expect(fn).toHaveBeenCalledTimes(2)
  })
})

describe('an idempotency key of the manager', () => {
  it('never hands the result of one tenant or operation to another', async () => {
    const manager = new RetryManager()
    const run = (tenantId: string, operation = 'load') =>
      manager.execute('API_REQUEST', operation, () => tenantId, { tenantId, idempotencyKey: 'k' })
    expect(await run('a')).toBe('a')
    await expect(run('b')).rejects.toBeInstanceOf(IdempotencyMismatchError)
    await expect(run('a', 'store')).rejects.toBeInstanceOf(IdempotencyMismatchError)
    expect(await run('a')).toBe('a')
  })

  it('that is in progress elsewhere is not waited for beyond the deadline', async () => {
    const clock = fakeClock()
    const manager = new RetryManager({ clock })
    const options = { idempotencyKey: 'k', deadline: '200ms' } as const
    const policy = { timeout: '1h' } as const
    const first = manager
      .execute('API_REQUEST', 'load', () => new Promise(() => {}), { ...options, policy })
      .catch(String)
    const second = manager.execute('API_REQUEST', 'load', () => 2, { ...options, wait: '50ms' }).catch(error => error)
    await clock.advance('60ms')
    expect(await second).toBeInstanceOf(IdempotencyInProgressError)
    await clock.advance('1s')
    expect(await first).toContain('deadline_passed')
  })

  it('can be forgotten', async () => {
    const manager = new RetryManager()
    let calls = 0
    const run = () => manager.execute('API_REQUEST', 'load', () => ++calls, { idempotencyKey: 'k' })
    expect([await run(), await run()]).toEqual([1, 1])
    await manager.idempotency.clear('k')
    expect(await run()).toBe(2)
  })
})
