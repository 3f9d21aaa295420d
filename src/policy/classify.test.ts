import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cpuTime } from '../../test/cpu-time.js'
import { type Classifier, classify } from './classify.js'
import { OptionError, PolicyError, RetryableError, TimeoutError } from './errors.js'
import { FinalError } from './final-error.js'
import { policy } from './parse.js'
import type { PolicyInput, Verdict } from './policy.js'
import { RateLimitedError } from './rate-limited-error.js'

const NOW = Date.UTC(2026, 0, 1)
const TEN_MB = 'x'.repeat(10_000_000)

const verdictOf = (failure: unknown, input: PolicyInput = {}, classifier?: Classifier): Verdict =>
  classify(failure, policy(input), NOW, classifier)
const classOf = (failure: unknown, input?: PolicyInput) => verdictOf(failure, input).class

/** An error with more to it than a message. */
const errorWith = (facts: object, cause?: unknown) => Object.assign(new Error('failed', { cause }), facts)

/**
 * Unknown errors are retryable too, so that alone does not show that one is known. In front of a 404, an unknown error is
 * looked through and the 404 decides; a known one decides itself.
 */
const in404 = (facts: object) => errorWith(facts, { status: 404 })

describe('without any configuration', () => {
  describe('errors of the network are retryable', () => {
    const codes = [
      ...['ECONNRESET', 'ECONNREFUSED', 'ECONNABORTED', 'ETIMEDOUT', 'ESOCKETTIMEDOUT', 'EPIPE', 'ENOTFOUND'],
      ...['EAI_AGAIN', 'EAI_FAIL', 'EHOSTUNREACH', 'EHOSTDOWN', 'ENETUNREACH', 'ENETDOWN', 'ENETRESET', 'ERR_NETWORK'],
      ...['ERR_STREAM_PREMATURE_CLOSE', 'ERR_SOCKET_CONNECTION_TIMEOUT', 'ERR_HTTP2_GOAWAY_SESSION'],
      ...['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'],
      // An answer that is no HTTP, as of a proxy that breaks off.
      ...['HPE_INVALID_CONSTANT', 'HPE_INVALID_EOF_STATE'],
    ]
    it.each(codes)('%s', code => {
      expect(verdictOf(in404({ code }))).toEqual({ class: 'retryable', code })
      expect(verdictOf(code)).toEqual({ class: 'retryable', code })
      const fetchFailed = new TypeError('fetch failed', { cause: errorWith({ code }) })
      expect(verdictOf(fetchFailed)).toEqual({ class: 'retryable', code })
    })

    it('also deep behind what fetch threw, and among several', () => {
      const refused = new AggregateError([errorWith({ code: 'ECONNREFUSED' }), errorWith({ code: 'ECONNREFUSED' })])
      expect(classOf(new TypeError('fetch failed', { cause: refused }))).toBe('retryable')
      expect(classOf(new TypeError('fetch failed', { cause: new Error('x', { cause: refused }) }))).toBe('retryable')
    })
  })

  it.each([TypeError, ReferenceError, RangeError, SyntaxError])('%o is a bug, so final', Bug => {
    class Subclass extends Bug {}
    expect(verdictOf(new Bug('x is not a function'))).toEqual({ class: 'final', code: Bug.name })
    expect(classOf(new Subclass('x'))).toBe('final')
    expect(classOf(new Error('x', { cause: new Bug('x') }))).toBe('final')
  })

  it.each<[string, unknown]>([
    ['no cause', undefined],
    ['an unknown cause', new Error('x')],
    ['a certificate that has expired', errorWith({ code: 'CERT_HAS_EXPIRED' })],
    ['a server error', { status: 503 }],
    ['a rate limit', { status: 429 }],
    ['a timeout', new TimeoutError('x', { timeoutMs: 1 })],
    ['a bug that has a server error behind it', new RangeError('x', { cause: { status: 503 } })],
  ])('a TypeError with %s is still a bug', (_, cause) => {
    expect(classOf(new TypeError('fetch failed', { cause }))).toBe('final')
  })

  it.each([
    ['TypeError', 'ERR_INVALID_ARG_TYPE'],
    ['TypeError', 'ERR_INVALID_URL'],
    ['RangeError', 'ERR_SOCKET_BAD_PORT'],
    ['TypeError', 'ERR_SOCKET_BAD_TYPE'],
  ])('a %s with the code %s is a bug', (name, code) => {
    expect(classOf(errorWith({ name, code }))).toBe('final')
  })

  it.each([
    ...['Throttling', 'ThrottlingException', 'ThrottledException', 'RequestThrottled', 'RequestThrottledException'],
    ...[
      'SlowDown',
      'TooManyRequestsException',
      'RequestLimitExceeded',
      'BandwidthLimitExceeded',
      'PriorRequestNotComplete',
    ],
    ...['LimitExceededException', 'EC2ThrottledException', 'ProvisionedThroughputExceededException'],
    'TransactionInProgressException',
  ])('the throttling that AWS calls %s is retryable, in spite of its status 400', name => {
    expect(classOf(errorWith({ name, $metadata: { httpStatusCode: 400 } }))).toBe('retryable')
    expect(classOf(errorWith({ name, statusCode: 400 }))).toBe('retryable')
  })

  it.each(['ValidationException', 'FileSizeLimitExceeded', 'AccessDeniedException', 'MaxFieldLimitExceededError'])(
    'an error that AWS-style services call %s is as final as its status 400',
    name => expect(classOf(errorWith({ name, $metadata: { httpStatusCode: 400 } }))).toBe('final'),
  )

  it.each(['08000', '08001', '08003', '08006', '40001', '40P01', '53300', '57P01', '57P02', '57P03'])(
    'the SQLSTATE %s is retryable',
    code => expect(verdictOf(errorWith({ code }))).toEqual({ class: 'retryable', code }),
  )

  describe('an HTTP status', () => {
    const expected = (status: number) => {
      if (status === 429) return 'rate_limited'
      if (status < 500) return [408, 425].includes(status) ? 'retryable' : 'final'
      return [501, 505].includes(status) ? 'final' : 'retryable'
    }
    it('of 4xx is final but for 408, 425 and 429; of 5xx retryable but for 501 and 505', () => {
      for (let status = 400; status <= 599; status++) {
        const verdict = { class: expected(status), code: `http_${status}` }
        // The cause alone would give the opposite verdict.
        const cause = verdict.class === 'final' ? 503 : 404
        expect(verdictOf({ status, cause })).toEqual(verdict)
      }
    })

    it('below 400 says nothing of a failure', () => {
      for (const status of [100, 200, 204, 301, 304, 399]) {
        expect(classOf({ status })).toBe('retryable')
        expect(classOf({ status, cause: 404 })).toBe('final')
      }
    })

    it.each<[string, (status: number) => unknown]>([
      ['a bare number', status => status],
      ['status', status => ({ status })],
      ['statusCode', status => ({ statusCode: status })],
      ['response.status', status => ({ response: { status } })],
      ['response.statusCode', status => ({ response: { statusCode: status } })],
      ['a numeric code', status => ({ code: status })],
      ['$metadata.httpStatusCode', status => ({ $metadata: { httpStatusCode: status } })],
      ['a Response that was thrown', status => new Response(null, { status })],
      ['an error with a Response', status => errorWith({ response: new Response(null, { status }) })],
    ])('is found as %s', (_, shape) => {
      expect(verdictOf(shape(404))).toEqual({ class: 'final', code: 'http_404' })
      expect(verdictOf(shape(429))).toEqual({ class: 'rate_limited', code: 'http_429' })
      expect(verdictOf(shape(500))).toEqual({ class: 'retryable', code: 'http_500' })
    })

    it.each([0, 42, 99, 600, 1000, 404.5, -404, NaN, Infinity])('is not %d', status => {
      expect(verdictOf(status)).toEqual({ class: 'retryable', code: 'unknown' })
      expect(verdictOf({ status })).toEqual({ class: 'retryable', code: 'unknown' })
    })
  })

  describe('a rate limit', () => {
    it.each<[string, unknown, number | undefined]>([
      ['429', { status: 429 }, undefined],
      ['429 with Retry-After', { status: 429, headers: { 'retry-after': '7' } }, 7000],
      ['429 with a RateLimit that resets', { status: 429, headers: { 'ratelimit-reset': '7' } }, 7000],
      ['503 with Retry-After', { status: 503, headers: { 'retry-after': '7' } }, 7000],
      ['a RateLimitedError', new RateLimitedError('slow'), undefined],
      ['a RateLimitedError that says for how long', new RateLimitedError('slow', { retryAfterMs: 7 }), 7],
      ['a RateLimitedError whose cause says for how long', rateLimitedBy({ 'retry-after': '7' }), 7000],
      ['a 429 behind an unknown error', new Error('x', { cause: { status: 429, retryAfter: 7 } }), 7000],
    ])('is %s', (_, failure, retryAfterMs) => {
      const { code, ...verdict } = verdictOf(failure)
      expect(verdict).toEqual({ class: 'rate_limited', ...(retryAfterMs !== undefined && { retryAfterMs }) })
    })

    it.each<[string, unknown]>([
      ['503 without Retry-After', { status: 503 }],
      ['503 with a Retry-After that cannot be read', { status: 503, headers: { 'retry-after': 'soon' } }],
      ['503 with RateLimit headers, which come with any answer', { status: 503, headers: { 'ratelimit-reset': '7' } }],
      ['500 with Retry-After', { status: 500, headers: { 'retry-after': '7' } }],
    ])('is not %s: that is retryable', (_, failure) => {
      expect(classOf(failure)).toBe('retryable')
    })

    it('is a wait of whole milliseconds, of 24 hours at most', () => {
      const day = 24 * 3_600_000
      const hintOf = (retryAfterMs: number) => verdictOf(new RateLimitedError('x', { retryAfterMs }))
      expect(hintOf(1.4)).toMatchObject({ retryAfterMs: 1 })
      expect(hintOf(day + 1)).toMatchObject({ retryAfterMs: day })
      expect(hintOf(Infinity)).toMatchObject({ retryAfterMs: day })
      expect(verdictOf({ status: 429, retryAfter: 999_999 })).toMatchObject({ retryAfterMs: day })
    })

    it('is a wait no longer than the policy allows', () => {
      const failure = { status: 429, retryAfter: 999_999 }
      expect(verdictOf(failure, { maxRetryAfter: '5m' })).toMatchObject({ retryAfterMs: 300_000 })
      expect(verdictOf(failure, { maxRetryAfter: '7d' })).toMatchObject({ retryAfterMs: 604_800_000 })
    })

    it.each([-1, NaN, -Infinity])('has no hint where the hint is %d', retryAfterMs => {
      expect(verdictOf(new RateLimitedError('x', { retryAfterMs }))).toEqual({
        class: 'rate_limited',
        code: 'rate_limited',
      })
    })

    function rateLimitedBy(headers: object): RateLimitedError {
      return new RateLimitedError('slow', { cause: { status: 429, headers } })
    }
  })

  it.each<[string, unknown]>([
    ['the reason of an AbortController', AbortSignal.abort().reason],
    ['an error by that name', errorWith({ name: 'AbortError', code: 'ABORT_ERR' })],
    ['one behind an unknown error', new Error('x', { cause: AbortSignal.abort().reason })],
    ['one with a network error behind it', errorWith({ name: 'AbortError' }, errorWith({ code: 'ECONNRESET' }))],
  ])('an abort is final: %s', (_, failure) => {
    expect(verdictOf(failure)).toEqual({ class: 'final', code: expect.stringMatching(/^(AbortError|ABORT_ERR)$/) })
  })

  it.each<[string, unknown]>([
    ['our own', new TimeoutError('x', { timeoutMs: 5, cause: 404 })],
    ['our own in a category', new TimeoutError('x', { timeoutMs: 5, code: 'TIMEOUT_KV_GET', cause: 404 })],
    ["the platform's", Object.assign(new DOMException('x', 'TimeoutError'), { cause: 404 })],
    ['one by that name', errorWith({ name: 'TimeoutError' }, 404)],
  ])('a timeout is retryable and its code is timeout: %s', (_, failure) => {
    expect(verdictOf(failure)).toEqual({ class: 'retryable', code: 'timeout' })
  })

  it.each<[string, unknown]>([
    ['an Error', new Error('boom')],
    ['null', null],
    ['undefined', undefined],
    ['an empty object', {}],
    ['a sentence', 'the disk is full'],
    ['an empty string', ''],
    ['a symbol', Symbol('s')],
    ['a bigint', 404n],
    ['a function', () => {}],
    ['a class', TypeError],
    ['true', true],
  ])('what is unknown is retryable: %s', (_, failure) => {
    expect(verdictOf(failure)).toEqual({ class: 'retryable', code: 'unknown' })
  })

  it('no message is searched', () => {
    const telling = 'ECONNRESET 404 429 AbortError TypeError TimeoutError RateLimitedError FinalError'
    expect(verdictOf(new Error(telling))).toEqual({ class: 'retryable', code: 'unknown' })
    expect(verdictOf(telling, { giveUpOn: [404, 'ECONNRESET', 'FinalError'] }).class).toBe('retryable')
    expect(verdictOf(new Error(telling), { retryOn: ['ECONNRESET', 429] }).class).toBe('final')
  })
})

describe('errors of one class', () => {
  it('are told apart by a name of their own, in any order', () => {
    class Refused extends Error {}
    const plain = { class: 'retryable', code: 'Refused' }
    expect(verdictOf(new Refused())).toEqual(plain)
    expect(verdictOf(Object.assign(new Refused(), { name: 'AbortError' }))).toEqual({
      class: 'final',
      code: 'AbortError',
    })
    expect(verdictOf(Object.assign(new Refused(), { name: 'ThrottlingException' })).code).toBe('ThrottlingException')
    expect(verdictOf(Object.assign(new Refused(), { status: 404 }))).toEqual({ class: 'final', code: 'http_404' })
    expect(verdictOf(new Refused())).toEqual(plain)
  })
})

describe('the code of a verdict', () => {
  class QuotaError extends RetryableError {}
  class QueryError extends Error {}

  it.each<[unknown, string]>([
    [errorWith({ code: 'ECONNRESET' }), 'ECONNRESET'],
    [errorWith({ code: 'ERR_BAD_REQUEST', status: 404 }), 'http_404'],
    ['ECONNRESET', 'ECONNRESET'],
    [404, 'http_404'],
    [errorWith({ name: 'ValidationError' }), 'ValidationError'],
    [errorWith({ code: 'two words' }), 'unknown'],
    [errorWith({ code: 'two words', name: 'ValidationError' }), 'ValidationError'],
    [errorWith({ code: TEN_MB }), 'unknown'],
    [errorWith({ name: TEN_MB }), 'unknown'],
    [new FinalError('x'), 'final'],
    [new FinalError('x', { code: 'no_such_user' }), 'no_such_user'],
    [new RetryableError('x'), 'retryable'],
    [new QuotaError('x'), 'QuotaError'],
    [new QueryError('x'), 'QueryError'],
    [{ status: 100 }, 'http_100'],
    [{ status: 599 }, 'http_599'],
    [new RateLimitedError('x'), 'rate_limited'],
    [new Error('x', { cause: errorWith({ code: 'EPIPE' }) }), 'EPIPE'],
    [errorWith({ name: 'Outer' }, errorWith({ name: 'Inner' })), 'Outer'],
  ])('is stable and short: case %#', (failure, code) => {
    expect(verdictOf(failure).code).toBe(code)
  })

  it('is a code or a name of up to a hundred characters', () => {
    const [longest, tooLong] = ['E'.repeat(100), 'E'.repeat(101)]
    expect(verdictOf(errorWith({ code: longest })).code).toBe(longest)
    expect(verdictOf(errorWith({ name: longest })).code).toBe(longest)
    expect(verdictOf(errorWith({ code: tooLong, name: tooLong })).code).toBe('unknown')
    expect(classOf(errorWith({ code: tooLong }), { giveUpOn: [tooLong] })).toBe('retryable')
  })

  it('is that of the error that decided', () => {
    const failure = errorWith({ name: 'Outer' }, errorWith({ code: 'INNER' }, { status: 404 }))
    expect(verdictOf(failure).code).toBe('http_404')
    expect(verdictOf(failure, { giveUpOn: ['inner'] }).code).toBe('INNER')
    expect(verdictOf(failure, { retryOn: ['outer'] }).code).toBe('Outer')
  })
})

describe("a policy's lists", () => {
  class DatabaseError extends Error {}
  class QueryError extends DatabaseError {}
  class DeadlockError extends QueryError {}

  it.each<[string, NonNullable<PolicyInput['giveUpOn']>[number], unknown, unknown]>([
    ['a status', 409, { status: 409 }, { status: 410 }],
    ['a bare number as a status', 409, 409, errorWith({ code: '409' })],
    ['a range of statuses', '5xx', { status: 599 }, { status: 499 }],
    ['a range in capitals', '5XX', 500, 400],
    ['a code', 'EBUSY', errorWith({ code: 'EBUSY' }), errorWith({ code: 'EBUSYX' })],
    ['a code, compared without case', 'ebusy', errorWith({ code: 'EBusy' }), errorWith({ code: 'EPERM' })],
    ['a bare string as a code', 'EBUSY', 'ebusy', 'EBUSY!'],
    ['a string of digits as a code', '409', errorWith({ code: '409' }), { status: 409 }],
    ['a name', 'ValidationError', errorWith({ name: 'ValidationError' }), new Error('ValidationError')],
    ['a class', QueryError, new QueryError('x'), new DatabaseError('x')],
    ['an ancestor class', DatabaseError, new DeadlockError('x'), new TypeError('x')],
    ['an ancestor by its name', 'databaseerror', new DeadlockError('x'), new Error('x')],
    ['the class of all errors', Error, new DeadlockError('x'), { status: 500 }],
    ['a timeout', 'timeout', new TimeoutError('x', { timeoutMs: 1 }), new RetryableError('x', { code: 'late' })],
    [
      'a timeout in a category',
      'timeout',
      new TimeoutError('x', { timeoutMs: 1, code: 'TIMEOUT_X' }),
      new Error('timeout'),
    ],
    [
      'the timeout of a category',
      'TIMEOUT_X',
      new TimeoutError('x', { timeoutMs: 1, code: 'TIMEOUT_X' }),
      new Error('x'),
    ],
    ['a timeout of the platform', 'timeout', new DOMException('x', 'TimeoutError'), new DOMException('x', 'DataError')],
    ['a class of the platform', DOMException, new DOMException('x', 'DataError'), new Error('x')],
    ['a class of our own', TimeoutError, new TimeoutError('x', { timeoutMs: 1 }), new Error('x')],
  ])('hold %s', (_, entry, listed, other) => {
    const isListed = (failure: unknown) => classOf(failure, { retryOn: 'all', giveUpOn: [entry] }) === 'final'
    expect([isListed(listed), isListed(other)]).toEqual([true, false])
    const isRetried = (failure: unknown) => classOf(failure, { retryOn: [entry] }) === 'retryable'
    expect(isRetried(listed)).toBe(true)
    if (!(other instanceof RetryableError)) expect(isRetried(other)).toBe(false)
  })

  it('match a class whose constructor a minifier renamed, by the name on its prototype', () => {
    class t extends Error {}
    Object.defineProperty(t.prototype, 'name', { value: 'ValidationError' })
    class e extends t {}
    for (const entry of ['ValidationError', t]) {
      expect(classOf(new t('x'), { giveUpOn: [entry] })).toBe('final')
      expect(classOf(new e('x'), { giveUpOn: [entry] })).toBe('final')
    }
  })

  it('match the ancestors of a class that takes its name from the constructor', () => {
    class AppError extends Error {
      override get name() {
        return this.constructor.name
      }
    }
    class NotFound extends AppError {}
    expect(classOf(new NotFound('x'), { giveUpOn: [AppError] })).toBe('final')
    expect(classOf(new NotFound('x'), { giveUpOn: [AppError], retryOn: [NotFound] })).toBe('retryable')
  })

  describe('where neither names the error', () => {
    const unlisted = [
      new Error('x'),
      new TypeError('x'),
      { status: 404 },
      { status: 503 },
      null,
      AbortSignal.abort().reason,
    ]

    it.each<[string, PolicyInput['retryOn'], Verdict['class']]>([
      ['a list of what to retry means final', ['ECONNRESET'], 'final'],
      ["'all' means retryable", 'all', 'retryable'],
      ['an empty list means retryable', [], 'retryable'],
      ["'none' means final", 'none', 'final'],
    ])('%s', (_, retryOn, expected) => {
      for (const failure of unlisted) {
        expect(classOf(failure, { retryOn })).toBe(expected)
        expect(classOf(failure, { retryOn, giveUpOn: ['EPERM'] })).toBe(expected)
      }
    })

    it('no retryOn at all leaves it to what is known of errors', () => {
      const expected = ['retryable', 'final', 'final', 'retryable', 'retryable', 'final']
      expect(unlisted.map(failure => classOf(failure))).toEqual(expected)
      expect(unlisted.map(failure => classOf(failure, { giveUpOn: ['EPERM'] }))).toEqual(expected)
    })
  })

  describe('where both name the error', () => {
    it.each<[string, unknown, PolicyInput, Verdict['class']]>([
      [
        'the nearer class wins: retry',
        new DeadlockError('x'),
        { retryOn: [QueryError], giveUpOn: [DatabaseError] },
        'retryable',
      ],
      [
        'the nearer class wins: give up',
        new DeadlockError('x'),
        { retryOn: [DatabaseError], giveUpOn: [QueryError] },
        'final',
      ],
      [
        'its own class wins: retry',
        new DeadlockError('x'),
        { retryOn: [DeadlockError], giveUpOn: [QueryError] },
        'retryable',
      ],
      [
        'its own class wins: give up',
        new DeadlockError('x'),
        { retryOn: [QueryError], giveUpOn: [DeadlockError] },
        'final',
      ],
      [
        'every class wins over Error itself',
        new QueryError('x'),
        { retryOn: [DatabaseError], giveUpOn: [Error] },
        'retryable',
      ],
      [
        'on a tie, retry wins: class',
        new QueryError('x'),
        { retryOn: [QueryError], giveUpOn: [QueryError] },
        'retryable',
      ],
      ['on a tie, retry wins: ancestor', new QueryError('x'), { retryOn: [Error], giveUpOn: [Error] }, 'retryable'],
      ['on a tie, retry wins: status', { status: 404 }, { retryOn: [404], giveUpOn: [404] }, 'retryable'],
      ['a status wins over its range: retry', { status: 503 }, { retryOn: [503], giveUpOn: ['5xx'] }, 'retryable'],
      ['a status wins over its range: give up', { status: 503 }, { retryOn: ['5xx'], giveUpOn: [503] }, 'final'],
      [
        'a range is as near as the next ancestor',
        withStatus(503),
        { retryOn: ['5xx'], giveUpOn: [DatabaseError] },
        'retryable',
      ],
      ['a range is nearer than the one after that', withStatus(503), { retryOn: [Error], giveUpOn: ['5xx'] }, 'final'],
      [
        'a code wins over a class: retry',
        errorWith({ code: 'E1' }),
        { retryOn: ['E1'], giveUpOn: [Error] },
        'retryable',
      ],
      ['a code wins over an ancestor: give up', coded('E1'), { retryOn: [DatabaseError], giveUpOn: ['E1'] }, 'final'],
      ['an empty retry list has no say', { status: 404 }, { retryOn: [], giveUpOn: [404] }, 'final'],
      ["'all' has no say", { status: 404 }, { retryOn: 'all', giveUpOn: [404] }, 'final'],
    ])('%s', (_, failure, input, expected) => {
      expect(classOf(failure, input)).toBe(expected)
    })

    function coded(code: string): QueryError {
      return Object.assign(new QueryError('x'), { code })
    }

    function withStatus(status: number): QueryError {
      return Object.assign(new QueryError('x'), { status })
    }
  })

  describe('and what is known of errors', () => {
    it('only tells retryable from rate limited', () => {
      const limited = { status: 429, headers: { 'retry-after': '3' } }
      for (const retryOn of ['all', [], [429], ['4xx']] as const)
        expect(verdictOf(limited, { retryOn })).toEqual({ class: 'rate_limited', code: 'http_429', retryAfterMs: 3000 })
      expect(verdictOf(limited, { retryOn: 'none' })).toEqual({ class: 'final', code: 'http_429' })
      expect(verdictOf(limited, { retryOn: [503] })).toEqual({ class: 'final', code: 'http_429' })
      expect(verdictOf(limited, { giveUpOn: [429] })).toEqual({ class: 'final', code: 'http_429' })
    })

    it('finds the rate limit behind a listed error', () => {
      const failure = errorWith({ name: 'UploadError' }, { status: 429, retryAfter: 3 })
      const expected = { class: 'rate_limited', code: 'UploadError', retryAfterMs: 3000 }
      expect(verdictOf(failure, { retryOn: ['UploadError'] })).toEqual(expected)
    })
  })

  describe("and Redrive's own errors", () => {
    class DocumentNotFoundError extends RetryableError {}
    class InvalidDocumentError extends FinalError {}

    it('retries a RetryableError and its subclasses, listed or not', () => {
      for (const retryOn of [undefined, 'all', [], ['ECONNRESET'], ['RetryableError']] as const) {
        expect(classOf(new RetryableError('x'), { retryOn })).toBe('retryable')
        expect(classOf(new DocumentNotFoundError('x'), { retryOn })).toBe('retryable')
      }
      expect(classOf(new DocumentNotFoundError('x'), { retryOn: 'none' })).toBe('final')
      expect(classOf(new DocumentNotFoundError('x'), { giveUpOn: [DocumentNotFoundError] })).toBe('final')
    })

    it('gives up on a FinalError and its subclasses, whatever else is retried', () => {
      for (const retryOn of [undefined, 'all', [], ['ECONNRESET'], ['Error'], ['RedriveError']] as const) {
        expect(classOf(new FinalError('x'), { retryOn })).toBe('final')
        expect(classOf(new InvalidDocumentError('x'), { retryOn })).toBe('final')
        expect(classOf(new Error('x', { cause: new FinalError('x') }), { retryOn })).toBe('final')
      }
    })

    it('takes a DocumentNotFoundError that a 404 caused for what it is', () => {
      const failure = new DocumentNotFoundError('not there yet', { cause: { status: 404 } })
      expect(verdictOf(failure)).toEqual({ class: 'retryable', code: 'DocumentNotFoundError' })
      expect(classOf(failure, { retryOn: ['RetryableError'] })).toBe('retryable')
      expect(classOf(failure, { retryOn: ['RetryableError'], giveUpOn: [404] })).toBe('final')
    })
  })
})

describe('a chain of causes', () => {
  const depths = [0, 1, 2, 20]
  const wrapped = (inner: unknown, depth: number): unknown =>
    depth === 0 ? inner : new Error('wrapper', { cause: wrapped(inner, depth - 1) })

  it('is searched by the give-up list as a whole, whatever stands in front', () => {
    for (const depth of depths) {
      const failure = new RetryableError('x', { cause: wrapped({ status: 410 }, depth) })
      expect(verdictOf(failure, { giveUpOn: [410], retryOn: ['RetryableError'] })).toEqual({
        class: 'final',
        code: 'http_410',
      })
    }
  })

  it('is retried for the outermost error that the list names', () => {
    for (const depth of depths) {
      const failure = wrapped(errorWith({ code: 'OUTER' }, errorWith({ code: 'INNER' })), depth)
      expect(verdictOf(failure, { retryOn: ['INNER', 'OUTER'] })).toEqual({ class: 'retryable', code: 'OUTER' })
      expect(verdictOf(failure, { retryOn: ['INNER'] })).toEqual({ class: 'retryable', code: 'INNER' })
    }
  })

  it('is judged by the outermost error that is known', () => {
    for (const depth of depths) {
      expect(classOf(wrapped({ status: 404, cause: { status: 503 } }, depth))).toBe('final')
      expect(classOf(wrapped({ status: 503, cause: { status: 404 } }, depth))).toBe('retryable')
    }
  })

  it('is looked through from a plain object too, and ends at null', () => {
    expect(classOf({ cause: { cause: 404 } })).toBe('final')
    expect(classOf({ cause: null })).toBe('retryable')
    expect(classOf({ cause: 'ECONNRESET' })).toBe('retryable')
  })

  it('goes through the errors of an AggregateError, and of one within another', () => {
    const inner = new AggregateError([new Error('x'), errorWith({ status: 410 })])
    expect(classOf(new AggregateError([new Error('x'), inner]))).toBe('final')
    expect(classOf(new AggregateError([new Error('x'), inner]), { retryOn: 'all', giveUpOn: [410] })).toBe('final')
    expect(classOf(new AggregateError([{ status: 410 }, new Error('x')]))).toBe('final')
    expect(classOf(new AggregateError([]))).toBe('retryable')
  })

  it('has a cause before the errors beside it, and nearer errors before farther ones', () => {
    const failure = new AggregateError([{ status: 503 }], 'x', { cause: { status: 404 } })
    expect(classOf(failure)).toBe('final')
    expect(classOf(new AggregateError([new Error('x', { cause: 404 }), { status: 503 }]))).toBe('retryable')
  })

  it('may go in circles', () => {
    const first = errorWith({})
    first.cause = errorWith({ errors: [first] }, errorWith({ status: 404 }, first))
    expect(classOf(first)).toBe('final')
    const own = errorWith({})
    own.cause = own
    expect(classOf(own)).toBe('retryable')
  })

  it('is still seen when an error in front of it cannot be read', () => {
    const unreadable = Object.defineProperty(errorWith({}, { status: 404 }), 'code', { get: thrower })
    expect(classOf(unreadable)).toBe('final')
  })
})

describe('a classifier beside the policy', () => {
  const limited = { status: 403, headers: { 'retry-after': '9' } }

  it('sees the failure and the verdict so far', () => {
    const seen: unknown[] = []
    const failure = { status: 404 }
    verdictOf(failure, {}, (...args) => void seen.push(...args))
    expect(seen).toEqual([failure, { class: 'final', code: 'http_404' }])
    expect(seen[0]).toBe(failure)
  })

  it.each<[string, unknown, ReturnType<Classifier>, Verdict]>([
    ['may leave it', { status: 404 }, undefined, { class: 'final', code: 'http_404' }],
    ['may say the class alone', { status: 404 }, 'retryable', { class: 'retryable', code: 'http_404' }],
    ['may say final', { status: 503 }, 'final', { class: 'final', code: 'http_503' }],
    ['may say what it was', { status: 503 }, 'retryable', { class: 'retryable', code: 'http_503' }],
    ['may say the whole verdict', null, { class: 'final', code: 'no_funds' }, { class: 'final', code: 'no_funds' }],
    ['keeps the hint', limited, 'rate_limited', { class: 'rate_limited', code: 'http_403', retryAfterMs: 9000 }],
    ['may say without a hint', null, 'rate_limited', { class: 'rate_limited', code: 'unknown' }],
    [
      'may give a hint',
      null,
      { class: 'rate_limited', code: 'quota', retryAfterMs: 5 },
      { class: 'rate_limited', code: 'quota', retryAfterMs: 5 },
    ],
  ])('%s', (_, failure, correction, expected) => {
    expect(verdictOf(failure, {}, () => correction)).toEqual(expected)
  })

  it('keeps the hint of a rate limit that it leaves as it is', () => {
    const failure = { status: 429, headers: { 'retry-after': '9' } }
    const expected = { class: 'rate_limited', code: 'http_429', retryAfterMs: 9000 }
    expect(verdictOf(failure, {}, () => 'rate_limited')).toEqual(expected)
    expect(verdictOf(failure, {}, () => undefined)).toEqual(expected)
  })

  it.each([
    [2.5, 3],
    [Infinity, 60_000],
    [120_000, 60_000],
    [-1, undefined],
    [NaN, undefined],
  ])('cannot ask for a wait that the policy does not allow: %d becomes %d', (given, retryAfterMs) => {
    const verdict = verdictOf(null, { maxRetryAfter: '1m' }, () => ({
      class: 'rate_limited',
      code: 'quota',
      retryAfterMs: given,
    }))
    expect(verdict).toEqual({
      class: 'rate_limited',
      code: 'quota',
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    })
  })

  it.each<[string, () => unknown]>([
    ['throws', thrower],
    ['throws null', () => nullThrower()],
    ['is asynchronous', async () => 'retryable'],
    // The test run fails if this rejection is left unhandled.
    ['is asynchronous and rejects', () => Promise.reject(new Error('no'))],
    ['answers with a code that is not text', () => ({ class: 'retryable', code: 42 })],
    ['answers with a class that does not exist', () => 'sometimes'],
    ['answers with a verdict that is none', () => ({ class: 'sometimes', code: 'x' })],
    ['answers with a boolean, as a predicate would', () => true],
    ['answers with an object whose getters throw', () => unreadableProxy()],
  ])('that %s is a bug, so the failure is final and its code says so', (_, classifier) => {
    expect(verdictOf(null, {}, classifier as Classifier)).toEqual({ class: 'final', code: 'classifier_failed' })
  })
})

it('bounds the code that a classifier gives', () => {
  const verdict = verdictOf(null, {}, () => ({ class: 'retryable', code: 'x'.repeat(3000) }))
  expect(verdict).toEqual({ class: 'retryable', code: 'x'.repeat(100) })
})

it.each([
  ['invalid_option', new OptionError('limit', 'no')],
  ['invalid_policy', new PolicyError('attempts', 'no')],
])('takes %s for a programming error, unless a policy says otherwise', (code, error) => {
  expect(verdictOf(error)).toEqual({ class: 'final', code })
  expect(classOf(new Error('x', { cause: error }))).toBe('final')
  expect(classOf(error, { retryOn: 'all' })).toBe('retryable')
})

describe('whatever is thrown', () => {
  const RULES: PolicyInput[] = [
    {},
    { retryOn: 'all', giveUpOn: [404, '5xx', 'EPERM', TypeError] },
    { retryOn: ['ECONNRESET', 503, Error], giveUpOn: [Error, 'timeout'] },
  ]

  /** Classifies it in every way, and checks that a verdict came out. */
  function judge(failure: unknown): void {
    for (const input of RULES) {
      const { class: verdict, code, ...rest } = verdictOf(failure, input)
      expect(verdict).toMatch(/^(final|retryable|rate_limited)$/)
      expect(code).toMatch(/^[\w.:-]{1,100}$/)
      for (const hint of Object.values(rest)) expect(Number.isSafeInteger(hint) && Number(hint) >= 0).toBe(true)
    }
  }

  function judgeQuickly(failure: unknown): void {
    expect(cpuTime(() => judge(failure))).toBeLessThan(2000)
  }

  const anything = fc.anything({
    withNullPrototype: true,
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSparseArray: true,
  })
  const names = fc.constantFrom(
    'name',
    'code',
    'status',
    'statusCode',
    'response',
    'headers',
    'cause',
    'errors',
    '$metadata',
  )
  const telling = fc.constantFrom<unknown>(
    'Error',
    'TypeError',
    'AbortError',
    'ECONNRESET',
    404,
    429,
    503,
    'retry-after',
    '-5',
    '7',
  )

  it('gets a verdict: any value', () => {
    fc.assert(fc.property(anything, judge), { numRuns: 500 })
  })

  it('gets a verdict: objects that have what is looked at, of the wrong kinds', () => {
    const { failure } = fc.letrec(tie => ({
      value: fc.oneof({ weight: 3, arbitrary: telling }, anything, tie('failure')),
      failure: fc
        .tuple(
          fc.array(fc.tuple(fc.oneof(names, fc.constantFrom('retryAfter', 'retryAfterMs')), tie('value'))),
          fc.boolean(),
        )
        .map(([fields, isError]) => Object.assign(isError ? new Error('x') : {}, Object.fromEntries(fields))),
    }))
    fc.assert(fc.property(failure, judge), { numRuns: 500 })
  })

  it('gets a verdict: errors whose getters throw', () => {
    fc.assert(
      fc.property(fc.uniqueArray(names), anything, (throwing, thrown) => {
        const failure = new Error('x', { cause: { status: 404 } })
        for (const name of throwing) {
          Object.defineProperty(failure, name, {
            get() {
              throw thrown
            },
          })
        }
        judge(failure)
      }),
      { numRuns: 200 },
    )
  })

  it.each<[string, () => unknown]>([
    ['a proxy whose every trap throws', unreadableProxy],
    ['an error caused by one', () => new Error('x', { cause: unreadableProxy() })],
    ['several of them', () => new AggregateError([unreadableProxy(), unreadableProxy()])],
    ['an error whose errors are one', () => errorWith({ errors: unreadableProxy() })],
    ['an error whose headers are one', () => errorWith({ status: 429, headers: unreadableProxy() })],
    ['a proxy that was revoked', revokedProxy],
    ['an error whose errors are one that was revoked', () => errorWith({ errors: revokedProxy() })],
    ['an object without a prototype', () => Object.create(null)],
    ['an error with a prototype that is no class', () => Object.create({ constructor: null })],
    ['an error whose class has no name', () => new (class extends Error {})('x')],
    [
      'an error whose class has a method for a name',
      () => new (Object.defineProperty(class extends Error {}, 'name', { value: thrower }))('x'),
    ],
    ['headers with a get that is none', () => errorWith({ status: 429, headers: { get: 5, 'retry-after': '1' } })],
    ['headers with a get that throws', () => errorWith({ status: 429, headers: { get: thrower } })],
    [
      'headers that cannot become text',
      () => errorWith({ status: 429, headers: { 'retry-after': Object.create(null) } }),
    ],
    ['headers that are a symbol', () => errorWith({ status: 429, headers: { 'retry-after': Symbol('s') } })],
    ['a hint that cannot become text', () => errorWith({ status: 429, retryAfter: { toString: thrower } })],
    ['prototypes that never end', () => endlessPrototypes()],
    ['causes that never end', endlessCauses],
    ['a hundred thousand causes', () => chain(100_000)],
    [
      'a hundred thousand errors in one',
      () => new AggregateError(Array.from({ length: 100_000 }, () => ({ code: 'x' }))),
    ],
    ['aggregates of aggregates', () => aggregates(3)],
    ['an aggregate with holes', () => errorWith({ errors: new Array(1e9) })],
    ['a message of 10 MB', () => new Error(TEN_MB)],
    ['a string of 10 MB', () => TEN_MB],
    ['a code of 10 MB', () => errorWith({ code: TEN_MB })],
    ['a name of 10 MB', () => errorWith({ name: TEN_MB })],
    [
      'a class with a name of 10 MB',
      () => new (Object.defineProperty(class extends Error {}, 'name', { value: TEN_MB }))('x'),
    ],
    ...[
      TEN_MB,
      '1'.repeat(1e7),
      ' '.repeat(1e7),
      `Mon, ${'a'.repeat(1e7)}`,
      `1${' '.repeat(1e7)}x`,
      'Mo'.repeat(5e6),
    ].map(
      text =>
        [
          `a Retry-After of 10 MB like '${text.slice(0, 8)}'`,
          () => ({ status: 429, headers: { 'retry-after': text, ratelimit: text, 'ratelimit-reset': text } }),
        ] as [string, () => unknown],
    ),
    ['a RateLimit of 10 MB', () => ({ status: 429, headers: { ratelimit: 't='.repeat(5e6) } })],
    ['a header whose name has 10 MB', () => ({ status: 429, headers: { [TEN_MB]: '1' } })],
  ])('gets a verdict, and quickly: %s', (_, make) => {
    judgeQuickly(make())
  })

  it('has its status known even where its headers cannot be read', () => {
    expect(verdictOf(errorWith({ status: 404, headers: unreadableProxy() }))).toEqual({
      class: 'final',
      code: 'http_404',
    })
  })

  it('is not looked at beyond a hundred errors', () => {
    expect(classOf(chain(99, { status: 404 }))).toBe('final')
    expect(classOf(chain(100, { status: 404 }))).toBe('retryable')
  })

  function chain(length: number, end?: unknown): unknown {
    let failure = end
    for (let i = 0; i < length; i++) failure = { cause: failure }
    return failure
  }

  function aggregates(depth: number): Error {
    return depth === 0 ? new Error('x') : new AggregateError(Array.from({ length: 30 }, () => aggregates(depth - 1)))
  }

  function endlessCauses(): object {
    return {
      get cause() {
        return endlessCauses()
      },
    }
  }

  function endlessPrototypes(): object {
    return new Proxy({}, { getPrototypeOf: endlessPrototypes })
  }

  function revokedProxy(): object {
    const { proxy, revoke } = Proxy.revocable([], {})
    revoke()
    return proxy
  }
})

function thrower(): never {
  throw new Error('thrown by a getter')
}

function nullThrower(): never {
  // biome-ignore lint/style/useThrowOnlyError: some libraries do throw null.
  throw null
}

function unreadableProxy(): object {
  return new Proxy({}, new Proxy({}, { get: () => thrower }))
}

it('takes no code from a classifier that is not text: a record could not hold it', () => {
  const classifier = () => ({ class: 'retryable', code: {} }) as unknown as Verdict
  const verdict = classify(new Error('x'), policy(), 0, classifier)
  expect(verdict).toEqual({ class: 'final', code: 'classifier_failed' })
})
