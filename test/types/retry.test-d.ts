import {
  type Attempt,
  type AttemptRecord,
  circuitBreaker,
  RetryExhaustedError,
  type RetryOptions,
  retry,
  retryBudget,
  retryFetch,
  retrying,
  type Verdict,
} from 'redrive'
import type { Decision, GiveUpReason } from 'redrive/policy'
import { describe, expectTypeOf, it } from 'vitest'

interface User {
  readonly id: number
}
declare function loadUser(id: number, options?: { deep: boolean }): Promise<User>

describe('the result of retry()', () => {
  it('is that of a synchronous function', () => {
    expectTypeOf(retry(() => 42)).toEqualTypeOf<Promise<number>>()
  })

  it('is what the promise of an asynchronous function holds', () => {
    expectTypeOf(retry(() => loadUser(1))).toEqualTypeOf<Promise<User>>()
    expectTypeOf(retry(async () => {})).toEqualTypeOf<Promise<void>>()
  })

  it('is a union where the function returns one', () => {
    const maybe = (): User | undefined => undefined
    expectTypeOf(retry(maybe)).toEqualTypeOf<Promise<User | undefined>>()
    const cached = (): User | Promise<User> => loadUser(1)
    expectTypeOf(retry(cached)).toEqualTypeOf<Promise<User>>()
    expectTypeOf(retry(async () => (Math.random() < 0.5 ? 'yes' : 1))).resolves.toEqualTypeOf<'yes' | 1>()
  })

  it('is never where the function only throws', () => {
    const fail = (): never => {
      throw new Error('down')
    }
    expectTypeOf(retry(fail)).toEqualTypeOf<Promise<never>>()
  })
})

it('the options of retry() have no idempotency key: that is for the retry manager, and for a guard', () => {
  // @ts-expect-error it would do nothing
  retry(() => 42, {}, { idempotencyKey: 'order-42' })
})

describe('the function that retry() takes', () => {
  it('is given its attempt', () => {
    retry(attempt => expectTypeOf(attempt).toEqualTypeOf<Attempt>())
    expectTypeOf<Attempt['attempt']>().toEqualTypeOf<number>()
    expectTypeOf<Attempt['signal']>().toEqualTypeOf<AbortSignal>()
    expectTypeOf<Attempt['deadline']>().toEqualTypeOf<number | undefined>()
  })

  it('cannot change its attempt', () => {
    retry(attempt => {
      // @ts-expect-error the fields of an attempt are read-only
      attempt.attempt = 2
    })
  })

  it('takes no arguments of its own', () => {
    // @ts-expect-error a function of the caller's arguments is wrapped by retrying()
    retry(loadUser)
    // @ts-expect-error what has been started once cannot be retried
    retry(loadUser(1))
  })
})

describe('the options of retry()', () => {
  it('are all optional, and known', () => {
    const signal = new AbortController().signal
    const options: RetryOptions = {
      signal,
      deadline: '10s',
      classify: (failure, verdict) => {
        expectTypeOf(failure).toEqualTypeOf<unknown>()
        expectTypeOf(verdict).toEqualTypeOf<Verdict>()
        return 'final'
      },
      breaker: circuitBreaker('types'),
      budget: retryBudget('types'),
      random: () => 0.5,
      id: '1',
      name: 'load',
      category: 'PAYMENT',
      tenantId: 'acme',
      correlationId: 'c',
      traceId: 't',
      context: { order: 7 },
    }
    retry(() => 1, {}, options)
    retry(outer => retry(() => 1, {}, { within: outer }))
  })

  it('are refused where they are misspelt or of the wrong type', () => {
    // @ts-expect-error no such option
    retry(() => 1, {}, { signl: undefined })
    // @ts-expect-error not a duration
    retry(() => 1, {}, { deadline: 'soon' })
    // @ts-expect-error a classifier cannot be asynchronous
    retry(() => 1, {}, { classify: async () => 'final' })
    // @ts-expect-error a predicate is no classifier
    retry(() => 1, {}, { classify: () => true })
    // @ts-expect-error the kind of a call is not for the caller to say
    retry(() => 1, {}, { kind: 'task' })
  })
})

describe('retrying()', () => {
  it('keeps the parameters and makes the result a promise', () => {
    const load = retrying(loadUser, { attempts: 3 })
    expectTypeOf(load).parameters.toEqualTypeOf<[id: number, options?: { deep: boolean }]>()
    expectTypeOf(load).returns.toEqualTypeOf<Promise<User>>()
    expectTypeOf(retrying((text: string) => text.length)).returns.toEqualTypeOf<Promise<number>>()
    // @ts-expect-error a number is asked for
    load('1')
    // @ts-expect-error a number is needed
    load()
  })

  it('keeps `this`', () => {
    class Account {
      balance = 0
      add = retrying(async function (this: Account, amount: number) {
        this.balance += amount
        return this.balance
      })
    }
    expectTypeOf(new Account().add(1)).toEqualTypeOf<Promise<number>>()
    const { add } = new Account()
    expectTypeOf(add).thisParameter.toEqualTypeOf<Account>()
    // @ts-expect-error it was taken from its account
    add(1)
  })
})

describe('a RetryExhaustedError', () => {
  it('says why, and has every attempt', () => {
    const error: unknown = undefined
    if (!(error instanceof RetryExhaustedError)) return
    expectTypeOf(error.reason).toEqualTypeOf<GiveUpReason>()
    expectTypeOf(error.attempts).toEqualTypeOf<readonly AttemptRecord[]>()
    expectTypeOf(error.code).toEqualTypeOf<string>()
    expectTypeOf<AttemptRecord['failure']>().toEqualTypeOf<unknown>()
    expectTypeOf<AttemptRecord['verdict']>().toEqualTypeOf<Verdict>()
    expectTypeOf<AttemptRecord['decision']>().toEqualTypeOf<Decision>()
  })
})

describe('retryFetch()', () => {
  it('takes what fetch takes, and gives what fetch gives', () => {
    expectTypeOf(retryFetch('https://a.example')).toEqualTypeOf<Promise<Response>>()
    retryFetch(new URL('https://a.example'), { method: 'PUT', body: 'x', headers: { a: 'b' }, redirect: 'error' })
    retryFetch(new Request('https://a.example'), {
      idempotencyKey: true,
      policy: { timeout: '5s' },
      retry: { id: '1' },
    })
  })

  it('takes its signal where fetch does', () => {
    const { signal } = new AbortController()
    retryFetch('https://a.example', { signal })
    // @ts-expect-error it would be there twice
    retryFetch('https://a.example', { retry: { signal } })
    // @ts-expect-error a key is text, or true to make one up
    retryFetch('https://a.example', { idempotencyKey: false })
  })
})

it('the signal of an attempt is not lost in a copy without a word', () => {
  retry(attempt => {
    expectTypeOf(attempt.signal).toEqualTypeOf<AbortSignal>()
    const copy = { ...attempt }
    // @ts-expect-error it is made when it is read, so a copy has none
    copy.signal
    // @ts-expect-error and is no attempt
    return retry(() => 1, {}, { within: copy })
  })
})
