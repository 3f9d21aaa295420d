import { RateLimitedError } from 'redrive'
import { Later, type Skip, skip } from 'redrive/task'

const MANY = 10 * 2 ** 20

/** Things that a handler may throw. Each must end as a failure on record, and harm nobody else. */
export const POISON_ERRORS: Readonly<Record<string, () => unknown>> = {
  null: () => null,
  undefined: () => undefined,
  'an empty text': () => '',
  'a symbol': () => Symbol('s'),
  'a bigint': () => 10n ** 400n,
  'a function': () => () => {},
  NaN: () => Number.NaN,
  'a cyclic object': () => {
    const cyclic: Record<string, unknown> = { message: 'round' }
    cyclic.cause = cyclic
    cyclic.self = [cyclic]
    return cyclic
  },
  'an error that is its own cause': () => {
    const error = new Error('round')
    error.cause = error
    return error
  },
  'a message of 10 MB': () => new Error('x'.repeat(MANY)),
  'a name and a code of 10 MB': () =>
    Object.assign(new Error('long'), { name: 'N'.repeat(MANY), code: 'C'.repeat(MANY) }),
  'an aggregate of 100 000': () =>
    withoutStacks(() => new AggregateError(Array.from({ length: 100_000 }, () => new Error('one')))),
  'a chain of 100 000 causes': () =>
    withoutStacks(() => {
      let error = new Error('innermost')
      for (let depth = 0; depth < 100_000; depth++) error = new Error('outer', { cause: error })
      return error
    }),
  'lone surrogates and NUL': () => new Error('\ud800 \udfff \0 end'),
  'getters that throw': () => ({
    get message(): string {
      throw new Error('no message')
    },
    get code(): string {
      throw new Error('no code')
    },
    get status(): number {
      throw new Error('no status')
    },
    get cause(): unknown {
      throw new Error('no cause')
    },
  }),
  'a proxy that throws': () => {
    const refuse = () => {
      throw new Error('no')
    }
    return new Proxy({}, { get: refuse, has: refuse, getPrototypeOf: refuse, ownKeys: refuse })
  },
  'a revoked proxy': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  },
  'an object without a prototype': () => Object.create(null),
  'a text that cannot be made': () => ({
    toString() {
      throw new Error('no text')
    },
  }),
  'a wait of NaN': () => new RateLimitedError('slow down', { retryAfterMs: Number.NaN }),
  'a wait of less than nothing': () => ({ status: 429, headers: { 'retry-after': '-5' } }),
  'a call later at no time': () => new Later(Number.NaN),
  'a code that is an object': () => Object.assign(new Error('odd'), { code: { deep: true }, status: 'abc' }),
}

/** Makes errors by the thousand: to capture their stacks too would take longer than a lease on a busy machine. */
function withoutStacks(make: () => Error): Error {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    return make()
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** Things that a handler may return. The work is done: none of them may make it be done again. */
export const POISON_RESULTS: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  'a cyclic object': () => {
    const cyclic: Record<string, unknown> = {}
    cyclic.self = cyclic
    return cyclic
  },
  'a bigint': () => 1n,
  'a function': () => () => {},
  'a Map': () => new Map([[1, 2]]),
  'a text of 10 MB': () => 'x'.repeat(MANY),
  'a toJSON that throws': () => ({
    toJSON() {
      throw new Error('no JSON')
    },
  }),
  'a nesting of 100 000': () => {
    let nested: unknown[] = []
    for (let depth = 0; depth < 100_000; depth++) nested = [nested]
    return nested
  },
  'lone surrogates': () => '\ud800 and \udfff',
  'a proxy that throws': () =>
    new Proxy(
      {},
      {
        get(_, name) {
          if (name === 'then') return undefined
          throw new Error('no')
        },
        getPrototypeOf() {
          throw new Error('no')
        },
      },
    ),
}

/** Ways of ending that the types forbid, and a program without types may use all the same. */
export const POISON_SKIPS: Readonly<Record<string, () => Skip>> = {
  'no reason': () => skip(undefined as unknown as string),
  'an error as its reason': () => skip(new Error('broken') as unknown as string),
  'a reason of 10 MB': () => skip('x'.repeat(MANY)),
}
