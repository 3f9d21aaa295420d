import { type Attempt, type Policy, RetryManager } from 'redrive'
import {
  type IdempotencyClaim,
  IdempotencyGuard,
  type IdempotencyStore,
  idempotencyKey,
  MemoryIdempotencyStore,
} from 'redrive/idempotency'
import { presets } from 'redrive/presets'
import { assertType, describe, expectTypeOf, it } from 'vitest'

const manager = new RetryManager()
const guard = new IdempotencyGuard({ store: new MemoryIdempotencyStore() })

describe('a category', () => {
  it('is any text', () => {
    manager.policyOf('PAYMENT' as string)
    // @ts-expect-error not text
    manager.policyOf(42)
  })

  it('has a policy', () => {
    expectTypeOf(manager.policyOf('PAYMENT')).toEqualTypeOf<Policy>()
    manager.register('PAYMENT', { attempts: 4 })
    new RetryManager({ categories: { PAYMENT: { attempts: 4 } } })
    // @ts-expect-error a policy with a wrong field
    manager.register('PAYMENT', { retries: 4 })
    // @ts-expect-error a policy with a wrong field
    new RetryManager({ categories: { PAYMENT: { retries: 4 } } })
  })

  it('may come from a preset', () => {
    expectTypeOf(presets.calls.categories.NATS_CONNECT).toEqualTypeOf<Policy>()
    new RetryManager({ categories: presets.calls.categories })
    // @ts-expect-error the preset has no such category
    presets.calls.categories.PAYMENT
  })
})

describe('manager.execute()', () => {
  it('has the result of its function', () => {
    expectTypeOf(manager.execute('KV_GET', 'load', () => 42)).toEqualTypeOf<Promise<number>>()
    expectTypeOf(manager.execute('PAYMENT', 'charge', async () => ({ paid: true }))).resolves.toEqualTypeOf<{
      paid: boolean
    }>()
    expectTypeOf(manager.execute('KV_GET', 'load', async (): Promise<string | null> => null)).resolves.toEqualTypeOf<
      string | null
    >()
  })

  it('gives its function the attempt', () => {
    manager.execute('KV_GET', 'load', attempt => expectTypeOf(attempt).toEqualTypeOf<Attempt>())
  })

  it('takes the options of a call, and those of its own', () => {
    manager.execute('KV_GET', 'load', () => 1, {
      policy: { attempts: 2 },
      idempotencyKey: 'k',
      params: { a: 1 },
      tenantId: 'acme',
      correlationId: 'c',
      traceId: 't',
      context: { order: 7 },
      deadline: '5s',
    })
    // @ts-expect-error the category has been said
    manager.execute('KV_GET', 'load', () => 1, { category: 'KV_PUT' })
    // @ts-expect-error the sink is the manager's
    manager.execute('KV_GET', 'load', () => 1, { sink: () => {} })
    // @ts-expect-error what has been started once cannot be retried
    manager.execute('KV_GET', 'load', Promise.resolve(1))
  })
})

describe('guard.run()', () => {
  it('has the result of its function', () => {
    expectTypeOf(guard.run('k', () => 42)).toEqualTypeOf<Promise<number>>()
    expectTypeOf(guard.run('k', async () => ['a'])).toEqualTypeOf<Promise<string[]>>()
    expectTypeOf(guard.run('k', async (): Promise<string | undefined> => undefined)).resolves.toEqualTypeOf<
      string | undefined
    >()
  })

  it('gives its function a signal', () => {
    guard.run('k', ({ signal }) => expectTypeOf(signal).toEqualTypeOf<AbortSignal>())
  })

  it('takes how long to wait', () => {
    guard.run('k', () => 1, { wait: true })
    guard.run('k', () => 1, { wait: '5s' })
    // @ts-expect-error not a duration
    guard.run('k', () => 1, { wait: 'long' })
    // @ts-expect-error a guard needs a store
    new IdempotencyGuard({})
  })
})

describe('an idempotency store', () => {
  it('is what its contract says', () => {
    assertType<IdempotencyStore>(new MemoryIdempotencyStore({ keepFor: '24h' }))
    // @ts-expect-error the other verbs are missing
    assertType<IdempotencyStore>({ clear: async () => {} })
  })

  it('answers a claim in one of three ways', () => {
    const claim = {} as IdempotencyClaim
    switch (claim.state) {
      case 'fresh':
        return expectTypeOf(claim.token).toEqualTypeOf<string>()
      case 'in_progress':
        return expectTypeOf(claim.leaseLeftMs).toEqualTypeOf<number>()
      case 'done':
        return expectTypeOf(claim.result).toEqualTypeOf<string>()
      default:
        return expectTypeOf(claim).toEqualTypeOf<never>()
    }
  })
})

it('an idempotency key is text, and needs an operation', () => {
  expectTypeOf(idempotencyKey({ operation: 'charge', params: { a: 1 } })).toEqualTypeOf<string>()
  // @ts-expect-error no operation
  idempotencyKey({ tenantId: 'acme' })
})
